"""Policies: they map text to its private character spans. One per file; `_files` are helpers."""

from audit.policies._named import named, names, policy_class, source_of

__all__ = ["named", "names", "policy_class", "source_of"]
