"""Sigstore bundles, of a Sigstore made offline: what is proven is accepted, anything else not."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.errors import UsageError
from audit.results.frozen import Frozen
from audit.results.joined import LEVEL
from audit.verify.sigstore_bundle import Bundle, existed
from tests import command_line
from tests.verify.conftest import Folder
from tests.verify.proofs import key, stamped, tool

pytest.importorskip("sigstore", reason="sigstore is not installed: pip install '.[sigstore]'")

from tests.verify import offline_sigstore
from tests.verify.offline_sigstore import Sigstore

AT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
Document = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """A frozen plan, and what signs it."""

    folder: Path
    sigstore: Sigstore

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    def write(self, name: str, document: Document) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(document))
        return path

    def bundle(self, document: Document, root: Document | None = None) -> Bundle:
        """What verifies a bundle of Ann's, under this Sigstore or another root."""
        given = self.write("root.json", root or self.sigstore.root())
        return Bundle(self.write("bundle.json", document), "ann@lab", "https://id.lab", given)


@pytest.fixture(scope="module")
def sigstore() -> Sigstore:
    return Sigstore()


@pytest.fixture
def place(by_hand: Path, sigstore: Sigstore, tmp_path: Path) -> Place:
    results = json.loads((by_hand / "results.json").read_text("utf-8"))
    plan = {name: value for name, value in results["plan"].items() if name != "hash"}
    tests, bounds = (results["releases"][0][name] for name in ("tests", "claim_tests"))
    (tmp_path / "plan.json").write_text(Frozen(plan, tests, bounds, LEVEL, "").text)
    return Place(tmp_path, sigstore)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def entry(document: Document) -> Document:
    (one,) = document["verificationMaterial"]["tlogEntries"]
    found: Document = one
    return found


def stamps(document: Document) -> list[Document]:
    material = document["verificationMaterial"]["timestampVerificationData"]
    found: list[Document] = material["rfc3161Timestamps"]
    return found


@pytest.mark.parametrize(
    ("began", "code", "match"),
    [
        ("2026-03-05", 0, "existed at 2026-03-04 05:06 UTC, before 2026-03-05, the day on which"),
        ("2026-03-04", 0, "before the run, of whose beginning only the day is known, 2026-03-04"),
        ("2026-03-03", 1, "its proven time, 2026-03-04, is after 2026-03-03, the day on which"),
    ],
)
def test_bundle_proves_signer_and_time(
    place: Place, folder: Folder, began: str, code: int, match: str
) -> None:
    folder.edit("results.json", lambda one: one["environment"].update(began=began))
    folder.seal()
    signed = place.bundle(place.sigstore.bundle(place.plan.read_bytes(), AT))
    words = ("--bundle", signed.path, "--trusted-root", signed.trusted_root)
    words += ("--identity", signed.identity, "--issuer", signed.issuer)
    done = command_line.audit("verify", folder.path, "--frozen", place.plan, *words)
    assert done.returncode == code and match in done.stdout, done
    signer = "signed by ann@lab, for whom https://id.lab vouches, under root.json"
    assert (signer in done.stdout) == (not code)
    assert "no signature was checked" not in done.stdout and "not proven" not in done.stdout


def test_bundle_stands_beside_other_proofs(place: Place, folder: Folder) -> None:
    """The earliest time counts: that of the bundle, not the one of the timestamp."""
    key(place.folder, "bob")
    signers = place.folder / "signers"
    signers.write_text(f"bob@lab {(place.folder / 'bob.pub').read_text()}")
    sign = ("ssh-keygen", "-Y", "sign", "-f", "bob", "-n", "llm-audit-plan", place.plan)
    tool(*sign, cwd=place.folder)
    stamp, authority = stamped(place.folder, place.plan)
    folder.edit("results.json", lambda one: one["environment"].update(began="2026-03-05"))
    folder.seal()
    one = place.bundle(place.sigstore.bundle(place.plan.read_bytes(), AT))
    proofs = {"bundle": one.path, "trusted_root": one.trusted_root, "signers": signers}
    proofs |= {"timestamp": stamp, "authority": authority}
    whose = {"identity": one.identity, "issuer": one.issuer}
    checked = api.verify(folder.path, place.plan, **proofs, **whose)
    assert checked.holds and sum("is signed by" in line for line in checked.verified) == 2
    assert any("existed at 2026-03-04 05:06 UTC, before" in line for line in checked.verified)


@pytest.mark.parametrize(
    "began", [None, "", "tomorrow", "2026-03-04T23:00", 20260305, "9999-01-01"]
)
def test_run_without_a_first_day_shows_no_before(
    place: Place, folder: Folder, began: object
) -> None:
    """Nor an after: a date (of its results, which may be written again) is no beginning."""
    given = {"began": began, "date": "2026-03-05"}
    folder.edit("results.json", lambda one: one["environment"].update(given))
    folder.seal()
    one = place.bundle(place.sigstore.bundle(place.plan.read_bytes(), AT))
    whose = {"identity": one.identity, "issuer": one.issuer, "trusted_root": one.trusted_root}
    checked = api.verify(folder.path, place.plan, bundle=one.path, **whose)
    assert checked.holds and not any("before" in line for line in checked.verified)
    assert any("which states no past day" in line for line in checked.not_verifiable)


def made(
    change: Callable[[Document], object] = lambda document: None, other: str = "", **given: Any
) -> Callable[[Place], Bundle]:
    """A bundle with one thing that is not as it must be, checked as Ann's.

    change: edits it. other: whose key is another's. given: what was signed instead.
    """

    def bundle(place: Place) -> Bundle:
        by = replace(place.sigstore, **({other: offline_sigstore.key()} if other else {}))
        document = by.bundle(**{"statement": place.plan.read_bytes(), "at": AT, **given})
        change(document)
        return place.bundle(document)

    return bundle


def later(document: Document) -> None:
    """Still within the certificate's life."""
    entry(document)["integratedTime"] = str(int((AT + MINUTE).timestamp()))


def attested(document: Document) -> None:
    del document["messageSignature"]
    signatures = [{"sig": "AAAA", "keyid": ""}]
    envelope = {"payload": "AAAA", "payloadType": "x", "signatures": signatures}
    document["dsseEnvelope"] = envelope


REFUSED = {
    "another file": (made(statement=b"other"), "digest mismatch"),
    "another file, its digest left out": (
        made(lambda one: one["messageSignature"].pop("messageDigest"), statement=b"other"),
        "Signature is invalid",
    ),
    "another identity": (made(who=f"{1000 * 'e'}ve@lab"), "SANs do not match ann@lab"),
    "another issuer": (made(issuer="https://id.evil"), "OIDCIssuer does not match"),
    "another authority": (made(other="authority"), "certificate chain"),
    "another log of certificates": (made(other="certificates"), "SCT"),
    "another log of signatures": (made(other="rekor"), "invalid log entry"),
    "another place in the log": (
        made(lambda one: entry(one)["inclusionProof"].update(logIndex="0")),
        "invalid root hash",
    ),
    "another time": (made(later), "invalid inclusion promise"),
    "a time after the certificate's life": (made(logged=AT + 11 * MINUTE), "certificate chain"),
    "a time without end": (
        made(lambda one: entry(one).update(integratedTime=str(2**63))),
        "not a signature",
    ),
    "no time": (made(lambda one: entry(one).pop("integratedTime")), "sources of verified time"),
    "no promise": (made(lambda one: entry(one).pop("inclusionPromise")), "inclusion promise or"),
    "a timestamp that is none": (
        made(lambda one: stamps(one).append({"signedTimestamp": "AAAA"})),
        "Timestamp",
    ),
    "an attestation": (made(attested), "Missing bundle message signature"),
}


@pytest.mark.parametrize(("bundle", "match"), REFUSED.values(), ids=REFUSED)
def test_bundle_that_proves_less_is_refused(
    place: Place, bundle: Callable[[Place], Bundle], match: str
) -> None:
    one = bundle(place)
    with pytest.raises(UsageError, match=match) as refused:
        existed(place.plan, one)
    assert "\n" not in str(refused.value) and len(str(refused.value)) < 1000


UNREADABLE = {
    "no JSON": b"{",
    "a list": b"[]",
    "no text": b"\xff",
    "deep": b"[" * 100_000,
    "another form": b'{"base64Signature": "AAAA", "cert": "AAAA"}',
}


@pytest.mark.parametrize("content", UNREADABLE.values(), ids=UNREADABLE)
@pytest.mark.parametrize("name", ["bundle", "root"])
def test_file_that_is_none_is_refused(place: Place, content: bytes, name: str) -> None:
    one = made()(place)
    (place.folder / f"{name}.json").write_bytes(content)
    match = "not a Sigstore bundle" if name == "bundle" else "not a trusted root"
    with pytest.raises(UsageError, match=match):
        existed(place.plan, one)


@pytest.mark.parametrize("name", ["bundle", "root"])
def test_huge_file_is_not_read(place: Place, name: str) -> None:
    """All is as it must be, but for a megabyte of spaces."""
    one = made()(place)
    path = place.folder / f"{name}.json"
    path.write_bytes(path.read_bytes() + b" " * (1 << 20))
    with pytest.raises(UsageError, match="larger than 1 MB"):
        existed(place.plan, one)


def test_pipe_of_a_bundle_is_not_waited_for(place: Place) -> None:
    one = made()(place)
    os.mkfifo(place.folder / "pipe")
    for name in ("path", "trusted_root"):
        with pytest.raises(UsageError, match="no regular file"):
            existed(place.plan, replace(one, **{name: place.folder / "pipe"}))


def test_library_brings_a_root(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read without a network, and nothing is written into the home."""
    home = place.folder / "home"
    home.mkdir()
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(home))
    with pytest.raises(UsageError, match="certificate chain"):
        existed(place.plan, replace(made()(place), trusted_root=None))
    assert not list(home.iterdir())


@dataclass(frozen=True)
class Clock:
    """A timestamp authority made here, whose clock is right; each stamp makes it anew."""

    folder: Path

    def stamp(self, signature: bytes) -> bytes:
        (self.folder / "signature").write_bytes(signature)
        return stamped(self.folder, self.folder / "signature")[0].read_bytes()

    def trusted(self, sigstore: Sigstore) -> Document:
        """The root that trusts it."""
        pems = [(self.folder / name).read_text() for name in ("tsa.pem", "ca.pem")]
        chain = ["".join(one.splitlines()[1:-1]) for one in pems]
        return sigstore.root(timestampAuthorities=[offline_sigstore.authority(*chain)])


def test_timestamp_alone_proves_a_time(place: Place) -> None:
    """As of logs of version 2."""
    now = datetime.now(UTC).replace(microsecond=0)
    clock = Clock(place.folder)
    given = {"stamped": clock.stamp, "timeless": True}
    document = place.sigstore.bundle(place.plan.read_bytes(), now - MINUTE, **given)
    found = existed(place.plan, place.bundle(document, clock.trusted(place.sigstore)))
    assert now <= found <= datetime.now(UTC) and found.tzinfo is UTC
    with pytest.raises(UsageError, match="no Timestamp Authorities"):
        existed(place.plan, place.bundle(document))


def test_time_that_cannot_stand_alone_is_refused(place: Place) -> None:
    """The first form of bundles must hold a log's promise; this one promises no time."""
    clock = Clock(place.folder)
    now = datetime.now(UTC).replace(microsecond=0)
    document = place.sigstore.bundle(place.plan.read_bytes(), now - MINUTE, stamped=clock.stamp)
    document["mediaType"] = "application/vnd.dev.sigstore.bundle+json;version=0.1"
    material = document["verificationMaterial"]
    material["x509CertificateChain"] = {"certificates": [material.pop("certificate")]}
    del entry(document)["integratedTime"]
    with pytest.raises(UsageError, match="none of its times is proven alone"):
        existed(place.plan, place.bundle(document, clock.trusted(place.sigstore)))


@pytest.mark.parametrize("trusted", [True, False])
@pytest.mark.parametrize("name", ["timestampVerificationData", "timestamp_verification_data"])
def test_earliest_time_that_is_verified_counts(place: Place, trusted: bool, name: str) -> None:
    """A timestamp before the log's promise counts if its authority is trusted, by either name."""
    now = datetime.now(UTC).replace(microsecond=0)
    clock, logged = Clock(place.folder), now + 5 * MINUTE
    given = {"logged": logged, "stamped": clock.stamp}
    document = place.sigstore.bundle(place.plan.read_bytes(), now - MINUTE, **given)
    material = document["verificationMaterial"]
    material[name] = material.pop("timestampVerificationData")
    if not trusted:
        clock.stamp(b"")  # by a new authority, which is trusted instead
    found = existed(place.plan, place.bundle(document, clock.trusted(place.sigstore)))
    assert (found < logged) if trusted else (found == logged)
