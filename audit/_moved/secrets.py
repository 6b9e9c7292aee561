"""`audit.secrets` as it was imported before; it goes with the next version."""

import warnings

from audit.core.secret import *  # noqa: F403

warnings.warn("audit.secrets has moved: import from audit.core", DeprecationWarning, stacklevel=2)
