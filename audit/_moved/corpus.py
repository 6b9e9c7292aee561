"""`audit.corpus` as it was imported before; it goes with the next version."""

import warnings

from audit.core.corpus import *  # noqa: F403
from audit.corpora.loading import *  # noqa: F403

warnings.warn("audit.corpus has moved: import from audit.core", DeprecationWarning, stacklevel=2)
