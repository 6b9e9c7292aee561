"""Ensembles of models of disjoint parts that answer queries: all that a new one is made of."""

from defenses.ensembles.accounts import ByData, Constant, Filter, even_share
from defenses.ensembles.defense import EnsembleDefense
from defenses.ensembles.mechanism import Mechanism, Mixed
from defenses.ensembles.parts import even_parts, hashed_parts
from defenses.ensembles.promise import ONE_TOKEN, ORDER
from defenses.ensembles.release import EnsembleRelease

__all__ = [
    "ONE_TOKEN",
    "ORDER",
    "ByData",
    "Constant",
    "EnsembleDefense",
    "EnsembleRelease",
    "Filter",
    "Mechanism",
    "Mixed",
    "even_parts",
    "even_share",
    "hashed_parts",
]
