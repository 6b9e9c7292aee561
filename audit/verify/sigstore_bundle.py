"""Verifies a Sigstore bundle of a file without any network: who signed it, and by which time.

The library `sigstore` is an extra, so it is imported where a bundle is given. It does not report
which of a bundle's times it has verified; each is tried alone here, and only what passes counts.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

from audit.core.errors import UsageError, first_line
from audit.core.files import read_text, regular

_MOST = 1 << 20  # bytes: bundles and trusted roots have some 10,000
_LONGEST = 300  # characters: the library's messages quote whole proofs
_ROOT = ("_store", "https%3A%2F%2Ftuf-repo-cdn.sigstore.dev", "trusted_root.json")


@dataclass(frozen=True)
class Bundle:
    """A Sigstore bundle, and whose signature it must hold.

    path: the file that `cosign sign-blob --bundle` or `sigstore sign --bundle` wrote. identity:
        the e-mail address or URI in the signer's certificate. issuer: URL of the OpenID provider
        that vouched for it. trusted_root: the keys and certificates to verify under, a file of the
        form of Sigstore's trusted_root.json; None: those that the library comes with.
    """

    path: Path
    identity: str
    issuer: str
    trusted_root: Path | None = None

    @property
    def signer(self) -> str:
        """Name the signer of a bundle that is verified, and by whose word."""
        under = f", under {self.trusted_root.name}" if self.trusted_root else ""
        return f"{self.identity}, for whom {self.issuer} vouches{under}"


def asked(
    path: Path | None, identity: str | None, issuer: str | None, trusted_root: Path | None
) -> Bundle | None:
    """Return the bundle to verify; None where none is given. Raises UsageError for half of one."""
    if path is None:
        if any(one is not None for one in (identity, issuer, trusted_root)):
            raise UsageError(
                "--identity, --issuer and --trusted-root are about --bundle FILE; give it"
            )
        return None
    if not identity or not issuer:
        raise UsageError(
            f"{path}: anybody can sign; give --identity, whose signature it must be, and --issuer, "
            "who vouches for that"
        )
    return Bundle(path, identity, issuer, trusted_root)


def existed(statement: Path, bundle: Bundle) -> datetime:
    """Return the earliest time (UTC) at which the statement is proven to have existed.

    Raises UsageError unless the bundle proves, by the word of a log or of a timestamp authority,
    that the identity signed this file while its certificate was valid.
    """
    verify = _verifier(statement, bundle)
    try:
        whole = _read(read_text(bundle.path, _MOST))
    except OSError as error:
        raise UsageError(f"{bundle.path}: cannot be read ({error.strerror})") from None
    except Exception as error:  # a parser raises errors of many kinds
        older = "cosign 2 writes one with --new-bundle-format"
        raise UsageError(
            f"{bundle.path}: not a Sigstore bundle ({_short(error)}); {older}"
        ) from None
    try:
        verify(whole)
    except Exception as error:  # certificates and tokens of strangers fail in any way
        what = f"not a signature of {statement} by {bundle.identity}"
        raise UsageError(f"{bundle.path}: {what} ({_short(error)})") from None
    times = [_time(one) for one in _single(whole) if _holds(verify, one)]
    if not times:
        raise UsageError(f"{bundle.path}: none of its times is proven alone; sign the file again")
    return min(times)


def _verifier(statement: Path, bundle: Bundle) -> Callable[[Any], None]:
    """Return what raises an error for a bundle that does not verify. Raises UsageError."""
    try:
        from sigstore import models, verify
        from sigstore.verify.policy import Identity
    except ImportError:
        raise UsageError(
            f"{bundle.path}: Sigstore bundles are read with the sigstore package; "
            "pip install 'llm-audit[sigstore]'"
        ) from None
    logging.getLogger("sigstore").addHandler(logging.NullHandler())  # an error is one line here
    # where the library's own lies: its function to read it writes into the home
    root = bundle.trusted_root or Path(str(resources.files("sigstore").joinpath(*_ROOT)))
    try:
        trusted = models.TrustedRoot.from_file(str(regular(root, _MOST)))
        verifier = verify.Verifier(trusted_root=trusted)
    except Exception as error:
        why = getattr(error, "strerror", None) or _short(error)
        raise UsageError(f"{root}: not a trusted root of Sigstore ({why})") from None
    policy = Identity(identity=bundle.identity, issuer=bundle.issuer)
    signed = statement.read_bytes()
    return lambda one: verifier.verify_artifact(signed, one, policy)


def _read(text: str) -> Any:
    """Read a bundle by the library, which raises errors of many kinds."""
    from sigstore.models import Bundle as Parsed

    return Parsed.from_json(text)


def _single(whole: Any) -> Iterator[Any]:
    """Yield bundles that are like the whole, but hold one of its times each."""
    text = whole.to_json()  # as the library has understood it, whatever names the file uses
    stamped = json.loads(text)["verificationMaterial"].get("timestampVerificationData") or {}
    for stamp in [None, *stamped.get("rfc3161Timestamps", [])]:
        document = json.loads(text)
        material = document["verificationMaterial"]
        material["timestampVerificationData"] = {"rfc3161Timestamps": [stamp] if stamp else []}
        if stamp:
            for name in ("integratedTime", "inclusionPromise"):
                material["tlogEntries"][0].pop(name, None)
        try:
            one = _read(json.dumps(document))
        except Exception:  # without a time, or of a form in which this time may not stand alone
            continue
        yield one


def _holds(verify: Callable[[Any], None], one: Any) -> bool:
    """Test whether a bundle verifies: the library demands at least one time that it verified."""
    try:
        verify(one)
    except Exception:
        return False
    return True


def _time(one: Any) -> datetime:
    """Return the only time of a bundle, UTC: within a signed token, or under a log's promise."""
    if stamps := one.verification_material.timestamp_verification_data:
        found: datetime = stamps.rfc3161_timestamps[0].tst_info.gen_time
        return found.astimezone(UTC)
    (entry,) = json.loads(one.to_json())["verificationMaterial"]["tlogEntries"]
    return datetime.fromtimestamp(int(entry["integratedTime"]), UTC)


def _short(error: Exception) -> str:
    return first_line(error)[:_LONGEST]
