"""The fixed words by which results are compared, as results.json writes them.

Their repr is that of the plain string, so digests of reprs do not depend on these classes.
"""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """Unit that a guarantee protects, or that one coin decides."""

    __repr__ = str.__repr__
    ATTRIBUTES = "private attributes of a record"
    ATTRIBUTES_OF_USER = "private attributes of a user"
    RECORD = "record"
    ONE_RECORD = "user of one record"  # comes or goes as a user does, and as a record
    USER = "user"
    PART = "part"
    PHRASE = "phrase"


class Relation(StrEnum):
    """Relation of neighbouring data sets, which differ in one unit."""

    __repr__ = str.__repr__
    ADD_OR_REMOVE = "add_or_remove"
    REPLACE = "replace"
    REMOVED = "removed"
    EMPTIED = "emptied"


class Leaked(StrEnum):
    """First answer of a finding, whatever was promised: what leaked."""

    __repr__ = str.__repr__
    LEAK = "leak"
    INSIDERS = "leak to insiders"
    NONE_FOUND = "no leak found"
    INCONCLUSIVE = "inconclusive"
    NOT_MEASURED = "not measured"

    @property
    def detected(self) -> bool:
        """Return whether a test found a leak, to everybody or to insiders only."""
        return self in (Leaked.LEAK, Leaked.INSIDERS)


class Shown(StrEnum):
    """State of a condition of "no leak found" for a finding: shown or not."""

    __repr__ = str.__repr__
    SHOWN = "shown"
    NOT_SHOWN = "not_shown"
    NOT_NEEDED = "not_needed"


class OnClaim(StrEnum):
    """Second answer of a finding: what it shows about the claim."""

    __repr__ = str.__repr__
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    NOT_TESTABLE = "not testable"
    NOTHING_CLAIMED = "nothing claimed"
    UNKNOWN = "unknown"
