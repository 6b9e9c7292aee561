"""Signatures and timestamps as other tools make them: ssh-keygen, openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path


def tool(*words: object, cwd: Path) -> None:
    subprocess.run(list(map(str, words)), cwd=cwd, check=True, capture_output=True)


def key(folder: Path, name: str) -> Path:
    path = folder / name
    tool("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path, cwd=folder)
    return path


AUTHORITY = """
[tsa]
default_tsa = here
[here]
serial = serial
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha1, sha256
clock_precision_digits = {decimals}
[usage]
extendedKeyUsage = critical,timeStamping
"""


def stamped(
    folder: Path, statement: Path, digest: str = "sha256", decimals: int = 0
) -> tuple[Path, Path]:
    """A timestamp about a statement by an authority made here, and the authority's certificate.

    decimals: of its seconds.
    """
    (folder / "tsa.cnf").write_text(AUTHORITY.format(decimals=decimals))
    (folder / "serial").write_text("01")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    made = (*new, "-subj", "/CN=here", "-days", "3")
    tool("openssl", "req", "-x509", *made, "-keyout", "ca.key", "-out", "ca.pem", cwd=folder)
    asked = (*new, "-subj", "/CN=clock")
    tool("openssl", "req", *asked, "-keyout", "tsa.key", "-out", "tsa.csr", cwd=folder)
    given = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2")
    extended = ("-extfile", "tsa.cnf", "-extensions", "usage")
    sign = ("openssl", "x509", "-req", "-in", "tsa.csr", *given, *extended, "-out", "tsa.pem")
    tool(*sign, cwd=folder)
    query = ("-data", statement, f"-{digest}", "-cert", "-out", "request.tsq")
    tool("openssl", "ts", "-query", *query, cwd=folder)
    signer = ("-config", "tsa.cnf", "-signer", "tsa.pem", "-inkey", "tsa.key")
    reply = ("-queryfile", "request.tsq", "-out", "plan.tsr")
    tool("openssl", "ts", "-reply", *signer, *reply, cwd=folder)
    return folder / "plan.tsr", folder / "ca.pem"
