"""Measurements of a release: utility, and the evidence of every attack."""
