"""`audit.ensemble` as it was imported before; it goes with the next version."""

import warnings

from audit.core.ensemble import *  # noqa: F403

warnings.warn("audit.ensemble has moved: import from audit.core", DeprecationWarning, stacklevel=2)
