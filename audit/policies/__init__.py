"""Policies: text → the character spans that are private. One a file; `_files` are not policies."""

from audit.policies._named import named, names, policy_class
from audit.policies._policy import Policy
from audit.policies._spans import Span, merged, redacted, token_mask

__all__ = [
    "Policy",
    "Span",
    "merged",
    "named",
    "names",
    "policy_class",
    "redacted",
    "token_mask",
]
