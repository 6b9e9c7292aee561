"""`audit.models.fine_tuning` as it was imported before; it goes with the next version."""

import warnings

from audit.models.training.fine_tuning import *  # noqa: F403

warnings.warn(
    "audit.models.fine_tuning has moved: import from audit.core", DeprecationWarning, stacklevel=2
)
