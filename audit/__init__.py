"""Trains language models under privacy defenses, attacks them, reports what leaked."""

__version__ = "0.1.0"
