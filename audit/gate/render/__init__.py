"""Writes the verdict of a gate: one format per file, chosen in audit/gate/files.py."""
