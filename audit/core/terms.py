"""The fixed words by which results are compared, as results.json writes them.

Their repr is that of the plain string, so digests of reprs do not depend on these classes.
"""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """What a guarantee protects, or what one coin decides."""

    __repr__ = str.__repr__
    ATTRIBUTES = "private attributes of a record"
    ATTRIBUTES_OF_USER = "private attributes of a user"
    RECORD = "record"
    ONE_RECORD = "user of one record"  # comes or goes as a user does, and as a record
    USER = "user"
    PART = "part"
    PHRASE = "phrase"


class Relation(StrEnum):
    """How neighbouring data sets differ in one unit."""

    __repr__ = str.__repr__
    ADD_OR_REMOVE = "add_or_remove"
    REPLACE = "replace"
    REMOVED = "removed"
    EMPTIED = "emptied"


class Leaked(StrEnum):
    """What leaked: the first answer of a finding, whatever was promised."""

    __repr__ = str.__repr__
    LEAK = "leak"
    NONE_FOUND = "no leak found"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"


class Shown(StrEnum):
    """Whether a condition of "no leak found" was shown for a finding."""

    __repr__ = str.__repr__
    SHOWN = "shown"
    NOT_SHOWN = "not_shown"
    NOT_NEEDED = "not_needed"


class OnClaim(StrEnum):
    """What a finding says about the claim: its second answer."""

    __repr__ = str.__repr__
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    NOT_TESTABLE = "not testable"
    NOTHING_CLAIMED = "nothing claimed"
    UNKNOWN = "unknown"
