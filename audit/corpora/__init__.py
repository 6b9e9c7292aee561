"""Readers of corpora, one form per file: each turns lines into records by user."""
