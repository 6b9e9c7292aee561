"""Verifies the plan in results.json: its hash, manifest.json, and what was run of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from audit.core.digest import digest_of_json
from audit.measure.evidence_file import EvidenceFile
from audit.planting.coins import toss
from audit.results.numbers import infinite, plain
from audit.verify.differences import differences, shown
from audit.verify.documents import Stated


def of_plan(run: Stated) -> Iterator[str]:
    """List what of a run's or a sweep's plan does not agree with itself or with manifest.json."""
    plan = {name: value for name, value in run.document["plan"].items() if name != "hash"}
    stands = run.document["plan"].get("hash")
    hashes = [digest_of_json(plan), digest_of_json(infinite(plan))]
    if stands not in hashes:
        yield f"plan.hash: stands {shown(stands)}, of this plan follows {shown(hashes[0])}"
    if run.manifest["hash"] != stands:
        yield f"manifest.json: hash: stands {shown(run.manifest['hash'])}, the plan's is {stands}"
    yield from differences("manifest.json: plan", plain(run.manifest["plan"]), plan)


def of_releases(run: Stated) -> Iterator[str]:
    """List the defenses and attacks of the plan that are not those of the releases, in order."""
    plan, releases = run.document["plan"], run.document["releases"]
    own = [r for r in releases if not r["role"].startswith("positive control of ")]
    asked = [_short(d["name"], d["parameters"], d["reference"]) for d in plan["defenses"]]
    found = [_short(r["defense"], r["parameters"], r["reference"]) for r in own]
    if asked != found:
        yield f"releases: stand {'; '.join(found)}, of the plan follow {'; '.join(asked)}"
    mixtures = {f"positive control of {r['defense']}" for r in own}
    for release in releases:
        if release["role"] not in {_role(release), *(mixtures if release["reference"] else ())}:
            where = f"releases.{release['defense']}.role"
            yield f"{where}: stands {shown(release['role'])}, follows {shown(_role(release))}"
    attacks = [a["name"] for a in plan["attacks"]]
    for release in releases:
        names = dict.fromkeys(f["attack"] for f in release["findings"])
        ran = [name.split(":")[0] for name in names]
        if ran != attacks:
            which = f"releases.{release['defense']}: findings"
            yield f"{which}: stand those of {', '.join(ran)}, planned are {', '.join(attacks)}"


def of_coins(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """Toss the coins of a run that planted its secrets again, by the seed of its plan.

    Those that `audit plant` tossed are in a manifest elsewhere.
    """
    plan, coins = run.document["plan"], evidence.coins
    planting = plan.get("planting")
    if planting is None:
        return
    users = planting["users"] + planting.get("invented", 0)
    owners = list(coins.present)
    if len(owners) != users or toss(owners, plan["seed"]) != coins:
        yield (
            "evidence.json: its coins are not those that the plan's seed tosses for "
            f"{shown(users)} users"
        )


def of_looks(run: Stated, evidence: EvidenceFile) -> Iterator[str]:
    """Compare the looks that the plan's tests are adjusted for with those that it states."""
    plan, family = run.document["plan"], evidence.family
    lots = plan.get("lots", 1)
    looks = plan.get("looks", 1) if lots == 1 else 2
    whole = family.tests % family.looks == family.claims % family.looks == 0
    if family.looks != looks or not whole:
        yield f"evidence.json: its tests are of {shown(family.looks)} looks, planned are {looks}"
    for release in evidence.releases:
        tosses, planned = release.tosses, plan.get("looks", 1)
        later = tosses is not None and tosses.before is not None
        made = 1 if tosses is None else tosses.after.looks
        if (tosses is None) != (planned == 1) or later > ("after" in plan) or made > planned:
            yield f"evidence.json: {release.ledger}: its tosses are of other looks than planned"
    if family.lots != lots:
        yield f"evidence.json: its people are in {shown(family.lots)} lots, planned are {lots}"


def _role(release: dict[str, Any]) -> str:
    """Return the role of a release that is not a service's own models without protection."""
    if not release["reference"]:
        return "audited"
    defense = str(release["defense"])
    return {"none": "positive control", "public": "null control"}.get(
        defense, f"control of {defense}"
    )


def _short(name: str, parameters: dict[str, Any], reference: bool) -> str:
    """Name a release. What only a server reports of itself is not a part of the plan."""
    own = {k: v for k, v in parameters.items() if k not in ("served", "served_sha256")}
    words = ",".join(f"{key}={value}" for key, value in own.items())
    return f"{name}{':' if words else ''}{words}{' (reference)' if reference else ''}"
