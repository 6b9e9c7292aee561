"""The reserve: people like those with coins, planted nowhere, for a copy of the audited weights.

Whoever trains a copy of the audited model on some of them ("spiked copy") knows what it memorised,
and can ask whether an attack sees it. The manifest does not hold them: they are drawn from its seed
under the name "reserve", so they are the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.core.randomness import stream
from audit.core.secret import Coins, Secret
from audit.planting.manifest import Manifest

_NAME = "reserve"
_PATIENCE = 10_000  # draws of a value that is free and as long


@dataclass(frozen=True)
class Reserve:
    """As many people as have coins, with secrets of the same kinds, copies, words and lengths.

    coins: as many people are in as in the audit, and as many out; which is drawn. A value is
    planted in the copy if `coins.planted` holds; of those in only some may be trained on.
    left_out: kinds whose values were not drawn by the manifest, as records of a base model's.
    """

    secrets: tuple[Secret, ...]
    coins: Coins
    left_out: frozenset[str] = frozenset()


def reserve(manifest: Manifest) -> Reserve:
    """Draw the reserve of a manifest, of this form or an earlier one.

    No value is one of a secret or beacon of the manifest, nor drawn twice for a kind, unless its
    space has too few values for that.
    """
    origin = (_NAME, manifest.source or manifest.texts)
    owners = {owner: f"reserve {i}" for i, owner in enumerate(manifest.coins.present)}
    used = {(secret.kind, secret.value) for secret in manifest.secrets}
    used |= {(beacon.kind, beacon.value) for beacon in manifest.beacons}
    generators = {
        kind: stream(manifest.seed, *origin, kind)
        for kind in dict.fromkeys(s.kind for s in manifest.secrets)
    }
    secrets = []
    for secret in manifest.secrets:
        if secret.space is None:
            continue
        value = secret.space.draw(generators[secret.kind])
        for _ in range(_PATIENCE):
            if len(value) == len(secret.value) and (secret.kind, value) not in used:
                break
            value = secret.space.draw(generators[secret.kind])
        used.add((secret.kind, value))
        secrets.append(replace(secret, value=value, owner=owners[secret.owner]))
    left_out = frozenset(generators) - {secret.kind for secret in secrets}
    return Reserve(tuple(secrets), _coins(manifest, (*owners.values(),)), left_out)


def _coins(manifest: Manifest, owners: tuple[str, ...]) -> Coins:
    generator = stream(manifest.seed, _NAME, manifest.source or manifest.texts, "coins")
    order = generator.permutation(len(owners))
    heads = sum(manifest.coins.present.values())
    present = {owners[i]: place < heads for place, i in enumerate(order)}
    slots = generator.integers(2, size=len(owners))
    return Coins(
        present={owner: present[owner] for owner in owners},
        slot={owner: int(slot) for owner, slot in zip(owners, slots, strict=True)},
    )
