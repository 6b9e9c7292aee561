"""Verifies a run folder: derives results.json again from what lies beside it, and compares.

Light: it loads no model. It finds what is inconsistent, not what is forged consistently.
"""

from audit.verify.frozen import Proofs
from audit.verify.outcome import Verification
from audit.verify.verify import verify

__all__ = ["Proofs", "Verification", "verify"]
