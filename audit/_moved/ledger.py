"""`audit.ledger` as it was imported before; it goes with the next version."""

import warnings

from audit.core.ledger import *  # noqa: F403

warnings.warn("audit.ledger has moved: import from audit.core", DeprecationWarning, stacklevel=2)
