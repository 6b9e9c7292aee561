"""Trains language models under privacy defenses, attacks them, reports what leaked."""

__version__ = "0.1.0"

# where earlier versions' modules are found, each with a warning, for one version
__path__ += [f"{place}/_moved" for place in __path__]
