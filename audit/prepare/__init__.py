"""Prepares a run: plants secrets, marks private spans and lists every training."""
