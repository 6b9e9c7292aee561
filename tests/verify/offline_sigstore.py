"""A Sigstore made here: an authority, its two logs, a signer, and the bundles that these issue.

Written from the formats' own texts (RFC 5280, 6962, 8785, Sigstore's bundle), not from the library
that reads them. Nothing of it is the public Sigstore.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")  # Fulcio's, of the OpenID provider
SCTS = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
EC = "PKIX_ECDSA_P256_SHA_256"
START = datetime(2020, 1, 1, tzinfo=UTC)
LIFE = timedelta(minutes=10)  # of a signer's certificate
Key = ec.EllipticCurvePrivateKey


def key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def public(one: Key) -> bytes:
    return one.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def name_of(one: Key) -> bytes:
    """The log's id: the SHA-256 of its key."""
    return sha256(public(one)).digest()


def sign(one: Key, data: bytes) -> bytes:
    return one.sign(data, ec.ECDSA(SHA256()))


def text(data: bytes) -> str:
    return b64encode(data).decode()


def _usage(**used: bool) -> x509.KeyUsage:
    names = ("digital_signature", "content_commitment", "key_encipherment", "data_encipherment")
    names += ("key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only")
    return x509.KeyUsage(**{name: used.get(name, False) for name in names})


@dataclass(frozen=True)
class Sigstore:
    """Keys of the authority, of the log of certificates, and of the log of signatures."""

    authority: Key = field(default_factory=key)
    certificates: Key = field(default_factory=key)
    rekor: Key = field(default_factory=key)

    @property
    def name(self) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority made here")])

    @property
    def _root(self) -> x509.Certificate:
        own = x509.SubjectKeyIdentifier.from_public_key(self.authority.public_key())
        made = x509.CertificateBuilder(self.name, self.name, self.authority.public_key(), 1)
        made = made.not_valid_before(START).not_valid_after(START + timedelta(days=36500))
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = _usage(key_cert_sign=True, crl_sign=True)
        made = made.add_extension(usage, critical=True).add_extension(own, critical=False)
        return made.sign(self.authority, SHA256())

    def root(self, **authorities: Any) -> dict[str, Any]:
        """trusted_root.json."""
        der = text(self._root.public_bytes(Encoding.DER))
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_log(self.rekor, "https://rekor.made.here")],
            "certificateAuthorities": [authority(der)],
            "ctlogs": [_log(self.certificates, "https://ct.made.here")],
            **authorities,
        }

    def certificate(self, signer: Key, who: str, issuer: str, at: datetime) -> x509.Certificate:
        """Of a signer for ten minutes, with the promise of the log of certificates in it."""
        own = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key())
        uses = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        mail = x509.SubjectAlternativeName([x509.RFC822Name(who)])
        made = x509.CertificateBuilder(self.name, x509.Name([]), signer.public_key(), 7)
        made = made.not_valid_before(at).not_valid_after(at + LIFE)
        made = made.add_extension(_usage(digital_signature=True), critical=True)
        made = made.add_extension(uses, critical=False).add_extension(own, critical=False)
        made = made.add_extension(mail, critical=True)
        made = made.add_extension(x509.UnrecognizedExtension(ISSUER, issuer.encode()), False)
        unlogged = made.sign(self.authority, SHA256()).tbs_certificate_bytes
        scts = x509.UnrecognizedExtension(SCTS, self._scts(unlogged, at))
        return made.add_extension(scts, critical=False).sign(self.authority, SHA256())

    def _scts(self, unlogged: bytes, at: datetime) -> bytes:
        """The list of one signed certificate timestamp (RFC 6962, 3.3) as an OCTET STRING."""
        milliseconds = int(at.timestamp() * 1000)
        entry = name_of(self.authority) + len(unlogged).to_bytes(3) + unlogged
        signed = struct.pack("!BBQH", 0, 0, milliseconds, 1) + entry + b"\0\0"
        signature = sign(self.certificates, signed)
        sct = b"\0" + name_of(self.certificates) + struct.pack("!QH", milliseconds, 0)
        sct += struct.pack("!BBH", 4, 3, len(signature)) + signature
        listed = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        return b"\x04" + bytes([len(listed)] if len(listed) < 128 else [0x81, len(listed)]) + listed

    def bundle(
        self,
        statement: bytes,
        at: datetime,
        who: str = "ann@lab",
        issuer: str = "https://id.lab",
        logged: datetime | None = None,
        stamped: Callable[[bytes], bytes] | None = None,
        timeless: bool = False,
    ) -> dict[str, Any]:
        """The bundle of a file that was signed at a time, which the log of signatures promises.

        logged: when it was logged, if later. stamped: gives a timestamp (RFC 3161) of a signature.
        timeless: by a log of version 2, which promises nothing and states no time.
        """
        signer = key()
        certificate = self.certificate(signer, who, issuer, at)
        signature = sign(signer, statement)
        stamps = [] if stamped is None else [stamped(signature)]
        body = (_body_2 if timeless else _body)(statement, signature, certificate)
        entry = self._entry(body, logged or at)
        if timeless:
            del entry["integratedTime"], entry["inclusionPromise"]
            entry["kindVersion"]["version"] = "0.0.2"
        digest = {"algorithm": "SHA2_256", "digest": text(sha256(statement).digest())}
        return {
            "mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json",
            "verificationMaterial": {
                "certificate": {"rawBytes": text(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [entry],
                "timestampVerificationData": {
                    "rfc3161Timestamps": [{"signedTimestamp": text(one)} for one in stamps]
                },
            },
            "messageSignature": {"messageDigest": digest, "signature": text(signature)},
        }

    def _entry(self, body: bytes, at: datetime) -> dict[str, Any]:
        """An entry of the log of signatures, the second of two, with both of its proofs."""
        second, whole = int(at.timestamp()), sha256(b"\0" + body).digest()
        other = sha256(b"\0first").digest()
        top = sha256(b"\1" + other + whole).digest()
        note = f"rekor.made.here - 1\n2\n{text(top)}\n"
        seal = text(name_of(self.rekor)[:4] + sign(self.rekor, note.encode()))
        promised = {"body": text(body), "integratedTime": second}
        promised |= {"logID": name_of(self.rekor).hex(), "logIndex": 41}
        promise = sign(self.rekor, json.dumps(promised, separators=(",", ":")).encode())
        return {
            "logIndex": "41",
            "logId": {"keyId": text(name_of(self.rekor))},
            "kindVersion": {"kind": "hashedrekord", "version": "0.0.1"},
            "integratedTime": str(second),
            "inclusionPromise": {"signedEntryTimestamp": text(promise)},
            "inclusionProof": {
                "logIndex": "1",
                "rootHash": text(top),
                "treeSize": "2",
                "hashes": [text(other)],
                "checkpoint": {"envelope": f"{note}\n— rekor.made.here {seal}\n"},
            },
            "canonicalizedBody": text(body),
        }


def _body(statement: bytes, signature: bytes, certificate: x509.Certificate) -> bytes:
    pem = text(certificate.public_bytes(Encoding.PEM))
    signed = {"content": text(signature), "publicKey": {"content": pem}}
    digest = {"hash": {"algorithm": "sha256", "value": sha256(statement).hexdigest()}}
    spec = {"data": digest, "signature": signed}
    return json.dumps({"apiVersion": "0.0.1", "kind": "hashedrekord", "spec": spec}).encode()


def _body_2(statement: bytes, signature: bytes, certificate: x509.Certificate) -> bytes:
    der = text(certificate.public_bytes(Encoding.DER))
    verifier = {"keyDetails": EC, "x509Certificate": {"rawBytes": der}}
    signed = {"content": text(signature), "verifier": verifier}
    digest = {"algorithm": "SHA2_256", "digest": text(sha256(statement).digest())}
    spec = {"hashedRekordV002": {"data": digest, "signature": signed}}
    return json.dumps({"apiVersion": "0.0.2", "kind": "hashedrekord", "spec": spec}).encode()


def _log(one: Key, url: str) -> dict[str, Any]:
    return {
        "baseUrl": url,
        "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": text(public(one)),
            "keyDetails": EC,
            "validFor": {"start": START.isoformat()},
        },
        "logId": {"keyId": text(name_of(one))},
    }


def authority(*chain: str) -> dict[str, Any]:
    """An authority of a trusted root. chain: its certificates, DER in base64, the root last."""
    return {
        "subject": {"organization": "here", "commonName": "authority made here"},
        "certChain": {"certificates": [{"rawBytes": der} for der in chain]},
        "validFor": {"start": START.isoformat()},
    }
