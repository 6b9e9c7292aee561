"""Readers of corpora, one form a file: what is written there, as records by user."""
