"""Policies: text → the character spans that are private. One a file; `_files` are not policies."""

from audit.policies._named import named, names, policy_class, source_of

__all__ = ["named", "names", "policy_class", "source_of"]
