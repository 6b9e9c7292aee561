"""`audit.guarantee` as it was imported before; it goes with the next version."""

import warnings

from audit.core.guarantee import *  # noqa: F403

warnings.warn("audit.guarantee has moved: import from audit.core", DeprecationWarning, stacklevel=2)
