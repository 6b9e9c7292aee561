"""Every edit of a run folder is found: by the digests, and, sealed again, by what follows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from audit.core.digest import digest_of_json
from audit.results import sums
from audit.results.exact import pack, unpack
from audit.verify import verify
from tests.verify.conftest import Folder

Change = Callable[[Any], None]


@dataclass(frozen=True)
class Edit:
    """One edit. says: the beginning of the line that names it, once all is sealed again."""

    says: str
    change: Change
    file: str = "results.json"


def release(document: Any, defense: str = "dp_sgd") -> Any:
    return next(r for r in document["releases"] if r["defense"] == defense)


def finding(document: Any, metric: str, defense: str = "dp_sgd") -> Any:
    return next(f for f in release(document, defense)["findings"] if f["metric"] == metric)


def session(document: Any, purpose: str = "utility") -> Any:
    return next(s for s in release(document, "submix")["sessions"] if s["purpose"] == purpose)


def setting(metric: str, defense: str = "dp_sgd", **values: Any) -> Change:
    return lambda d: finding(d, metric, defense).update(values)


def within(metric: str, field: str, defense: str = "dp_sgd", **values: Any) -> Change:
    return lambda d: finding(d, metric, defense)[field].update(values)


def promising(**values: Any) -> Change:
    return lambda d: release(d)["guarantee"].update(values)


OF = "releases.dp_sgd.findings"
HIT = f"{OF}.extraction.hit_rate"
AUC = f"{OF}.membership.span_loss_auc"


def of_looks(document: Any) -> None:
    document["family"]["looks"] = 10


def accounted(document: Any) -> None:
    release(document)["guarantee"]["accounting"]["terms"][0]["noise_multiplier"] = 3.0


def moved_point(document: Any) -> None:
    finding(document, "span_loss_auc")["roc"][3][1] += 0.2


def planned(document: Any) -> None:
    document["plan"]["delta"] = 1e-3


def rehashed(document: Any) -> None:
    planned(document)
    plan = {k: v for k, v in document["plan"].items() if k != "hash"}
    document["plan"]["hash"] = digest_of_json(plan)


def flipped(document: Any) -> None:
    document["present"][7] = not document["present"][7]


def other_slot(document: Any) -> None:
    place = document["present"].index(True)
    document["slot"][place] = 1 - document["slot"][place]


def seen(attack: str, name: str, change: Change) -> Change:
    """Changes an array of what an attack saw of the first release."""

    def edit(document: Any) -> None:
        attacks = document["releases"][0]["attacks"]
        (of,) = [a for a in attacks if a["attack"] == attack]
        array = unpack(of["seen"][0][name])
        change(array)
        of["seen"][0][name] = pack(array)

    return edit


def every(value: float) -> Change:
    """Puts one value in all places that are measured."""
    return lambda array: array.__setitem__(slice(None), [x if x is None else value for x in array])


def charged(rows: list[Any]) -> None:
    rows[30]["row"]["charge"][0] *= 0.5


def in_attack(rows: list[Any]) -> None:
    place = next(i for i, row in enumerate(rows) if row["session"].endswith("/ledger"))
    rows[place]["row"]["charge"] = [0.0001, 0.0001]


TOGETHER = [  # each a value of its own, so all are made at once
    Edit(f"{HIT}.ci", setting("hit_rate", ci=[0.0, 0.3])),
    Edit(f"{HIT}.k", setting("hit_rate", k=6)),
    Edit(f"{HIT}.n", setting("hit_rate", n=8000)),
    Edit(f"{HIT}.chance", setting("hit_rate", chance=0.2)),
    Edit(f"{HIT}.confidence", setting("hit_rate", confidence=0.99)),
    Edit(f"{HIT}.leaked", setting("hit_rate", leaked="no leak found")),
    Edit(f"{HIT}.claim", setting("hit_rate", claim="refuted")),
    Edit(f"{HIT}.sentence", setting("hit_rate", sentence="Nothing leaked.")),
    Edit(f"{HIT}.claim_sentence", setting("hit_rate", claim_sentence="Fine.")),
    Edit(f"{HIT}.control.value", within("hit_rate", "control", value=0.05)),
    Edit(f"{HIT}.power.largest_epsilon", within("hit_rate", "power", largest_epsilon=9.0)),
    Edit(f"{HIT}.least_p", setting("hit_rate", least_p=0.5)),
    Edit(f"{OF}.extraction.recall.outcomes", setting("recall", outcomes="0" * 30)),
    Edit(f"{HIT}.examples", setting("hit_rate", examples=[])),
    Edit(f"{AUC}.access", setting("span_loss_auc", access="generate")),
    Edit(f"{AUC}.roc", moved_point),
    Edit(f"{AUC}.blind.value", within("span_loss_auc", "blind", value=0.2)),
    Edit(f"{HIT}.epsilon_lower.value", within("hit_rate", "epsilon_lower", value=1.0)),
    Edit(f"{HIT}.epsilon_lower.guesses", within("hit_rate", "epsilon_lower", guesses=[[40, 40]])),
    Edit(f"{HIT}.epsilon_lower.delta", within("hit_rate", "epsilon_lower", delta=0.01)),
    Edit(f"{HIT}.claim_test.p_value", within("hit_rate", "claim_test", p_value=0.9)),
    Edit("releases.submix.findings.ledger.largest_share_of_charge.charge_test.exceeded",
         within("largest_share_of_charge", "charge_test", "submix", exceeded=3)),
    Edit("releases.dp_sgd.tests", lambda d: release(d).update(tests=1)),
    Edit("releases.dp_sgd.leaked", lambda d: release(d).update(leaked="no leak found")),
    Edit("releases.dp_sgd.claim", lambda d: release(d).update(claim="refuted")),
    Edit("headline", lambda d: d.update(headline=["All is well."])),
    Edit("releases.dp_sgd.guarantee.epsilon", promising(epsilon=1.0)),
    Edit("releases.dp_sgd.guarantee.delta", promising(delta=1e-9)),
    Edit("releases.dp_sgd.guarantee.alpha", promising(alpha=2.0)),
    Edit("releases.dp_sgd.guarantee.unit", promising(unit="record")),
    Edit("releases.dp_sgd.guarantee.relation", promising(relation="replace")),
    Edit("releases.dp_sgd.guarantee.basis", promising(basis="data-dependent")),
    Edit("releases.dp_sgd.guarantee.accounting.terms", accounted),
    Edit("releases.dp_sgd.guarantee.conditions",
         promising(conditions=["1 noised releases (σ = 20), not amplified"])),
    Edit("releases.submix.sessions.utility.queries", lambda d: session(d).update(queries=5)),
    Edit("releases.submix.sessions.utility.epsilon_spent",
         lambda d: session(d).update(epsilon_spent=[0.1, 0.1])),
    Edit("releases.submix.sessions.utility.stopped_at",
         lambda d: session(d).update(stopped_at=None)),
    Edit("releases.dp_sgd.cost.queries", lambda d: release(d)["cost"].update(queries=1)),
    Edit("releases.dp_sgd.utility.perplexity.value",
         lambda d: release(d)["utility"]["perplexity"].update(value=2.5, ci=[2.0, 3.0])),
    Edit("corpus.twins", lambda d: d["corpus"].update(twins=0)),
    Edit("corpus.invented_users", lambda d: d["corpus"].update(invented_users=30)),
    Edit(f"{HIT}.value", setting("hit_rate", value=0.0, k=0)),
    Edit(f"{HIT}.p_value", setting("hit_rate", p_value=0.5)),
    Edit(f"{OF}.exposure.exposure_1_copy.exposures.planted",
         lambda d: finding(d, "exposure_1_copy")["exposures"]["planted"].pop()),
    Edit("releases.submix.findings.membership.span_loss_auc.stronger_than_release",
         setting("span_loss_auc", "submix", stronger_than_release=False)),
    Edit("releases.dp_sgd.reference", lambda d: release(d).update(reference=True)),
    Edit("releases.dp_sgd.role", lambda d: release(d).update(role="null control")),
    Edit("releases.dp_sgd.utility.perplexity.ci",
         lambda d: release(d)["utility"]["perplexity"].update(ci=[1.0, 90.0])),
]  # fmt: skip
ALONE = [
    Edit("releases.dp_sgd.findings.exposure", setting("exposure_1_copy", attack="extraction")),
    Edit("releases", lambda d: release(d).update(seed=4)),
    Edit("releases.dp_sgd.utility.perplexity", lambda d: release(d)["utility"].pop("perplexity")),
    Edit("releases.dp_sgd.reference: stands 0, follows false",
         lambda d: release(d).update(reference=0)),
    Edit("releases.dp_sgd.findings: are in another order than follows",
         lambda d: release(d)["findings"].append(release(d)["findings"].pop(0))),
    Edit("releases.none", lambda d: d["releases"].remove(release(d, "none"))),
    Edit(HIT, lambda d: release(d)["findings"].pop(0)),
    Edit("releases.submix.sessions.utility", lambda d: release(d, "submix")["sessions"].pop(0)),
    Edit("plan.hash", planned),
    Edit("manifest.json: plan.delta", rehashed),
    Edit("plan.hash", lambda d: d["plan"].update(hash="0" * 64)),
    Edit("releases.dp_sgd: findings", lambda d: d["plan"]["attacks"].pop()),
    Edit("manifest.json: plan.seed", lambda d: d["plan"].update(seed=9), "manifest.json"),
    Edit(HIT, flipped, "evidence.json"),
    Edit("evidence.json: its tests are of 10", of_looks, "evidence.json"),
    Edit(f"{OF}.extraction.probability", other_slot, "evidence.json"),
    Edit(HIT, lambda d: d["releases"][0]["attacks"][0]["lost"].update(code="It was dropped"),
         "evidence.json"),
    Edit(HIT, seen("extraction", "found", every(-1)), "evidence.json"),
    Edit(f"{OF}.membership", seen("membership", "values", every(1.0)), "evidence.json"),
    Edit(f"{OF}.exposure", seen("exposure", "worst", every(900_000.0)), "evidence.json"),
    Edit("releases.none: stands there", lambda d: d["releases"].pop(), "evidence.json"),
    Edit(f"{OF}.exposure",
         lambda d: [row.__setitem__(3, 4) for row in d["secrets"]], "evidence.json"),
    Edit("releases.submix.sessions.extraction.epsilon_spent", charged, "ledger.jsonl"),
    Edit("releases.submix.findings.ledger.largest_share_of_charge.value",
         in_attack, "ledger.jsonl"),
    Edit("releases.submix.sessions.extraction.epsilon_spent",
         lambda rows: rows.pop(30), "ledger.jsonl"),
    Edit("evidence.json, ledger.jsonl: no results follow",
         lambda rows: rows.pop(-1), "ledger.jsonl"),
]  # fmt: skip
SEALED = [  # what nothing else in the folder says: only the digests tell
    Edit("", lambda d: release(d)["utility"]["bleu4"].update(value=20)),
    Edit("", lambda d: d["environment"].update(audit="0")),
    Edit("", lambda d: d.update(warnings=[])),
    Edit("", lambda d: d["corpus"].update(records=10)),
    Edit("", lambda d: release(d)["cost"].update(seconds=0.0)),
    Edit("", lambda rows: rows[0].update(generation=1), "samples.jsonl"),
]


def carry_out(edit: Edit, folder: Folder) -> None:
    change = folder.rows if edit.file.endswith(".jsonl") else folder.edit
    change(edit.file, edit.change)


def test_an_untouched_folder_holds(folder: Folder) -> None:
    found = verify(folder.path)
    assert found.differences == () and found.exit_code == 0
    assert any(line.startswith("BLEU") for line in found.not_verifiable)


def test_what_does_not_follow_is_found_even_where_all_is_sealed_again(folder: Folder) -> None:
    for edit in TOGETHER:
        carry_out(edit, folder)
    assert_found(TOGETHER, folder)


@pytest.mark.parametrize("edit", ALONE, ids=lambda edit: f"{edit.says} ({edit.file})")
def test_an_edit_that_moves_others_is_found(edit: Edit, folder: Folder) -> None:
    carry_out(edit, folder)
    assert_found([edit], folder)


def assert_found(edits: list[Edit], folder: Folder) -> None:
    """Seals the folder again; each edit has a line, and no line is of digests."""
    folder.seal()
    found = verify(folder.path)
    assert found.exit_code == 1
    for edit in edits:
        assert any(line.startswith(edit.says) for line in found.differences), edit.says
    assert all("\n" not in line and "SHA-256" not in line for line in found.differences)


@pytest.mark.parametrize("epsilon", [1.0, 7.5])
def test_an_epsilon_that_all_files_agree_on_must_still_be_that_of_its_accounting(
    epsilon: float, folder: Folder
) -> None:
    def in_evidence(document: Any) -> None:
        document["releases"][0]["guarantee"]["epsilon"] = pack(epsilon)

    folder.edit("evidence.json", in_evidence)
    folder.edit("results.json", promising(epsilon=epsilon))
    folder.seal()
    said = f"releases.dp_sgd.guarantee.epsilon: stands {epsilon}, follows 1.99"
    assert any(line.startswith(said) for line in verify(folder.path).differences)


@pytest.mark.parametrize(
    "edit", {edit.file: edit for edit in [*ALONE, *SEALED]}.values(), ids=lambda edit: edit.file
)
def test_the_digests_name_the_file_that_was_edited(edit: Edit, folder: Folder) -> None:
    carry_out(edit, folder)
    lines = sums.altered(folder.path)
    assert len(lines) == (edit.file != "manifest.json")
    assert all(line.startswith(f"{edit.file}: was changed") for line in lines)


def test_a_file_without_a_digest_is_named(folder: Folder) -> None:
    path = folder.path / sums.NAME
    lines = path.read_text("utf-8").splitlines(keepends=True)
    path.write_text("".join(line for line in lines if "samples.jsonl" not in line))
    assert verify(folder.path).differences == ("samples.jsonl: has no digest in SHA256SUMS",)


@pytest.mark.parametrize("edit", SEALED)
def test_what_only_digests_tell_is_said_to_be_not_verifiable(edit: Edit, folder: Folder) -> None:
    carry_out(edit, folder)
    assert verify(folder.path).exit_code == 1
