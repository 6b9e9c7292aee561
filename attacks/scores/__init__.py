"""Scores of membership: what one pass of a model says of a text, and of which text."""
