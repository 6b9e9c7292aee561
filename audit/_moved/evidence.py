"""`audit.evidence` as it was imported before; it goes with the next version."""

import warnings

from audit.core.evidence import *  # noqa: F403

warnings.warn("audit.evidence has moved: import from audit.core", DeprecationWarning, stacklevel=2)
