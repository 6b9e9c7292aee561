"""`audit.predictor` as it was imported before; it goes with the next version."""

import warnings

from audit.core.predictor import *  # noqa: F403

warnings.warn("audit.predictor has moved: import from audit.core", DeprecationWarning, stacklevel=2)
