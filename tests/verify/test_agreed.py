"""Edits on which all files agree: results.json follows from the edited evidence, all sealed."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from audit.measure import evidence_file
from audit.results.exact import pack
from audit.results.schema import to_json
from audit.verify import verify
from audit.verify.documents import stated
from audit.verify.evidence import of_noise
from audit.verify.run import derived, each
from defenses.training.stated_claim import Sums
from tests.verify.conftest import Folder
from tests.verify.test_hostile import planned

Change = Callable[[Any], None]


def follow(folder: Folder) -> None:
    """Writes the results that follow from what stands beside them, and the digests."""
    run, evidence = stated(folder.path), evidence_file.read(folder.path)
    results = derived(run, evidence, each(run, evidence))
    (folder.path / "results.json").write_text(to_json(results))
    folder.seal()


def service(document: Any) -> Any:
    (found,) = [one for one in document["releases"] if one["defense"] == "submix"]
    return found


def without(owner: int) -> Change:
    """Leaves out one user, with all secrets."""

    def change(document: Any) -> None:
        for name in ("present", "slot"):
            del document[name][owner]
        document["secrets"] = [row for row in document["secrets"] if row[4] != owner]

    return change


def flipped(document: Any) -> None:
    document["present"] = [not here for here in document["present"]]


def other_slots(document: Any) -> None:
    document["slot"] = [1 - slot for slot in document["slot"]]


COINS = {"all coins": flipped, "the second coins": other_slots, "the last user": without(29)}


@pytest.mark.parametrize("what", COINS)
def test_coins_are_those_that_the_seed_of_the_plan_tosses(what: str, folder: Folder) -> None:
    folder.edit("evidence.json", COINS[what])
    follow(folder)
    (line,) = verify(folder.path).differences
    assert line.startswith("evidence.json: its coins are not those that the plan's seed tosses")


def replan(folder: Folder, change: Change) -> None:
    """Changes the plan in all files, so that they still are of one plan."""
    planned(change)(folder)
    digest = json.loads((folder.path / "manifest.json").read_text("utf-8"))["hash"]
    folder.edit("evidence.json", lambda d: d.update(plan=digest))


def test_coins_that_were_tossed_elsewhere_cannot_be_tossed_again(folder: Folder) -> None:
    """Then the manifest of `audit plant` has them, which is no part of a run folder."""
    folder.edit("evidence.json", flipped)
    replan(folder, lambda plan: plan.update(planting=None))
    follow(folder)
    assert verify(folder.path).differences == ()


def test_no_session_spent_more_than_is_promised(folder: Folder) -> None:
    folder.edit("evidence.json", lambda d: service(d)["guarantee"].update(epsilon=pack(0.5)))
    follow(folder)
    lines = verify(folder.path).differences
    assert any(
        line.startswith("results.json: session extraction of submix:k=2 spent ε = ")
        and line.endswith(", more than the ε = 0.5 that is promised")
        for line in lines
    )


@pytest.mark.parametrize("field", ["name", "sha256"])
def test_the_corpus_is_that_of_the_plan(field: str, folder: Folder) -> None:
    folder.edit("results.json", lambda d: d["corpus"].update({field: "f" * 64}))
    folder.seal()
    (line,) = verify(folder.path).differences
    assert line.startswith(f"corpus.{field}: stands ")


def test_a_release_that_was_asked_for_its_utility_has_one(folder: Folder) -> None:
    def silent(document: Any) -> None:
        document["releases"][0]["utility"] = []

    folder.edit("evidence.json", silent)
    folder.edit("results.json", lambda d: d["releases"][0].update(utility={}))
    follow(folder)
    (line,) = verify(folder.path).differences
    assert line == "evidence.json: dp_sgd was asked for its utility, and there is none"


def test_invented_users_are_tossed_for_too(folder: Folder) -> None:
    replan(folder, lambda plan: plan.update(planting={"users": 25, "invented": 5}))
    folder.edit("results.json", lambda d: d["corpus"].update(invented_users=5))
    folder.seal()
    assert verify(folder.path).differences == ()
    replan(folder, lambda plan: plan.update(planting={"users": 25}))
    folder.seal()
    lines = verify(folder.path).differences
    assert lines[0].endswith("tosses for 25 users")
    assert lines[1:] == ("corpus.invented_users: stands 5, follows 0",)


def test_what_a_planned_attack_saw_is_not_left_out(folder: Folder) -> None:
    folder.edit("evidence.json", lambda d: d["releases"][0]["attacks"].pop(0))
    follow(folder)
    (line,) = verify(folder.path).differences
    assert line.startswith("releases.dp_sgd: findings: stand those of exposure, membership")


def test_evidence_of_another_plan_is_none_of_this_one(folder: Folder) -> None:
    folder.edit("evidence.json", lambda d: d.update(plan="0" * 64))
    folder.seal()
    (line,) = verify(folder.path).differences
    assert line == f"evidence.json: is of the plan {'0' * 64}, not of this one"


def test_the_manifest_has_the_hash_of_the_plan(folder: Folder) -> None:
    folder.edit("manifest.json", lambda d: d.update(hash="0" * 64))
    (line,) = verify(folder.path).differences
    assert line.startswith("manifest.json: hash: stands ")


@pytest.mark.parametrize("role", ["null control", "positive control of submix"])
def test_role_that_all_files_agree_on_is_found(role: str, folder: Folder) -> None:
    """An edited role moves a release out of the controls, or into them."""
    folder.edit("evidence.json", lambda d: service(d).update(role=role))
    follow(folder)
    lines = verify(folder.path).differences
    assert any("submix.role: stands" in line or "of the plan follow" in line for line in lines)


def test_piece_that_other_releases_have_is_not_left_out(folder: Folder) -> None:
    """Of a release without a budget; what attacks saw of other ones names what is missing."""

    def drop(document: Any) -> None:
        (of,) = [a for a in document["releases"][0]["attacks"] if a["attack"] == "membership"]
        of["seen"].pop(0)

    folder.edit("evidence.json", drop)
    follow(folder)
    lines = verify(folder.path).differences
    assert "evidence.json: dp_sgd lacks what membership saw: Scores loss record record" in lines


def test_noise_that_epsilon_is_not_accounted_for_is_found(folder: Folder) -> None:
    replan(folder, lambda plan: plan["defenses"][0]["parameters"].update(noise_multiplier=4.0))
    folder.edit(
        "evidence.json",
        lambda d: d["releases"][0]["parameters"].update(noise_multiplier=pack(4.0)),
    )
    follow(folder)
    said = "dp_sgd: noise_multiplier is 4, and its ε is accounted for 2"
    assert said in verify(folder.path).differences


_UNSAID = dict.fromkeys(("sampling_probability", "bands", "participations"))
CYCLIC = {"noise_multiplier": 2.0, "sampling_probability": 0.1, "steps": 90, "bands": 3}
CAPPED = {"noise_multiplier": 2.0, "steps": 90, "bands": 3, "participations": 20}
SAMPLED = {"noise_multiplier": 2.0, "sampling_probability": 0.1, "steps": 90}


@pytest.mark.parametrize("claim", [CYCLIC, CAPPED, SAMPLED])
def test_each_fact_of_a_stated_mechanism_is_what_epsilon_is_accounted_for(
    claim: dict[str, Any], folder: Folder
) -> None:
    evidence = evidence_file.read(folder.path)
    terms = [dataclasses.asdict(one) for one in Sums(**{**_UNSAID, **claim}).terms]

    def differences(**changes: Any) -> list[str]:
        one = evidence.releases[0]
        guarantee = dataclasses.replace(one.guarantee, accounting={"terms": terms})
        stated = {**claim, **changes}
        other = dataclasses.replace(one, defense="as_is", parameters=stated, guarantee=guarantee)
        return list(of_noise(dataclasses.replace(evidence, releases=(other,))))

    assert differences() == []
    for name in claim:
        (line,) = differences(**{name: claim[name] / 2})
        assert f": {name} is {claim[name] / 2:g}, and its ε is accounted for" in line


def test_text_is_not_taken_for_trained_on_where_no_file_was_stated(folder: Folder) -> None:
    replan(folder, lambda plan: plan.update(finished={"name": "m", "sha256": "0" * 64}))
    folder.edit("evidence.json", lambda d: d["releases"][0].update(defense="as_is"))
    follow(folder)
    said = "takes code for trained on, and no training file was stated"
    assert any(line.endswith(said) for line in verify(folder.path).differences)
