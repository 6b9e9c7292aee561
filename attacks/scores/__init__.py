"""Scores of membership: figures that one pass of a model gives of a text, and of which text."""
