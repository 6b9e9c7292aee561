"""`audit.streams` as it was imported before; it goes with the next version."""

import warnings

from audit.core.randomness import *  # noqa: F403

warnings.warn("audit.streams has moved: import from audit.core", DeprecationWarning, stacklevel=2)
