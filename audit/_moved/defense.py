"""`audit.defense` as it was imported before; it goes with the next version."""

import warnings

from audit.core.defense import *  # noqa: F403
from audit.core.training import *  # noqa: F403

warnings.warn("audit.defense has moved: import from audit.core", DeprecationWarning, stacklevel=2)
