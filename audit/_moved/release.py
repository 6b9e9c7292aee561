"""`audit.release` as it was imported before; it goes with the next version."""

import warnings

from audit.core.release import *  # noqa: F403

warnings.warn("audit.release has moved: import from audit.core", DeprecationWarning, stacklevel=2)
