"""`audit.errors` as it was imported before; it goes with the next version."""

import warnings

from audit.core.errors import *  # noqa: F403

warnings.warn("audit.errors has moved: import from audit.core", DeprecationWarning, stacklevel=2)
