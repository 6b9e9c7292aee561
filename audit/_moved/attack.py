"""`audit.attack` as it was imported before; it goes with the next version."""

import warnings

from audit.core.attack import *  # noqa: F403

warnings.warn("audit.attack has moved: import from audit.core", DeprecationWarning, stacklevel=2)
