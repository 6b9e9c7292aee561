"""`audit.language_model` as it was imported before; it goes with the next version."""

import warnings

from audit.core.language_model import *  # noqa: F403

warnings.warn(
    "audit.language_model has moved: import from audit.core", DeprecationWarning, stacklevel=2
)
