"""Texts of a release, and what is looked for in them."""
