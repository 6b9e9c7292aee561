"""The nouns of the field: the only package from which authors of plugins import.

    from audit.core import Defense, Release, Training

Each name is loaded from its file on first use, so light commands stay light.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "attack": "Attack Knowledge Neighbour Shadow",
    "corpus": "Corpus Population Record",
    "defense": "Defense",
    "ensemble": "Ensemble",
    "errors": "UsageError",
    "evidence": "Divergences Evidence Exhibits Hits Likelihoods LogRatios Mentions Ranks Scores "
    "Successes",
    "guarantee": "Guarantee default_delta no_guarantee",
    "language_model": "LanguageModel OpenSession",
    "law": "LaplaceNoise Law Lawful",
    "ledger": "Ledger",
    "model": "ModelFolder TextTokenizer",
    "policy": "Policy",
    "predictor": "Access Answer Predictor Tokenizer Tokens affordable continuation record_tokens",
    "randomness": "derived_seed noise_stream stream",
    "release": "Journal ModelRelease NoJournal Release",
    "rules": "POSITIVE Rule at_least check_fields one_of",
    "secret": "Secret Space",
    "spans": "Span",
    "terms": "Relation Unit",
    "training": "FineTuning Method Trained Training owners",
}
HOME = {name: file for file, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Load a noun from its file."""
    if name not in HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{HOME[name]}"), name)
