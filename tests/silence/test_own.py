"""Contact of real users with coins in a training elsewhere: beacons that are seen, and a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.terms import Leaked
from audit.findings.shows import not_shown, shown
from audit.plan.resolve import resolve
from audit.planting import manifest as manifests
from audit.planting import own as owners
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.silence import own
from audit.silence.sightings import aimed_at, asked_of
from tests import builders, exports

BASE = str(EMBEDDED_FOLDER / "public_model")
ONE: Any = SimpleNamespace(external=True)
SEEN = {("membership", "own_mean_ratio_auc"): shown("this measure finds 2 values", 64)}
Stated = Callable[..., Run]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    exports.write(folder / "mail.mbox", 30)
    given = {"coin_users": 1.0, "beacons": "auto", "share": 0.8, "count": 4, "repetitions": "1"}
    source = str(folder / "mail.mbox")
    api.plant(source, folder / "planted.jsonl", folder / "coins.json", seed=1, **given)
    return folder


@pytest.fixture
def stated(planted: Path, tmp_path: Path) -> Stated:
    """stated(rows): a run whose model was trained on these rows, as its user says."""

    def run(rows: list[dict[str, Any]] | None) -> Run:
        words = f"as_is:base={BASE}"
        if rows is not None:
            (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
            words += f",training={tmp_path / 't.jsonl'}"
        settings = {"defense": (words,), "attack": ("membership",), "model": BASE}
        settings |= {"secrets": str(planted / "coins.json")}
        plan = resolve({**settings, "corpus": str(planted / "planted.jsonl"), "device": "cpu"})
        return prepare(plan, tmp_path)

    return run


def rows_of(planted: Path) -> list[dict[str, Any]]:
    lines = (planted / "planted.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def aside(planted: Path, present: bool) -> list[dict[str, Any]]:
    """The records of users with coins that fell this way."""
    users = manifests.read(planted / "coins.json").own
    assert users is not None
    kept = owners.read(users, planted / "coins.json")
    return [{"text": r.text} for r in kept if users.coins.present[r.user] == present]


def test_file_with_heads_and_no_tails_and_seen_beacons_are_contact(
    planted: Path, stated: Stated
) -> None:
    run = stated(rows_of(planted))
    there = own.holdings(run)
    assert there.held == there.heads > 5 and there.tails == 0
    assert own.contact(run, ONE, SEEN)["own"].state == "shown"
    blind = {next(iter(SEEN)): not_shown("this measure does not see them", 64)}
    for sight, rows in ((blind, rows_of(planted)), ({}, rows_of(planted)), (SEEN, None)):
        assert own.contact(stated(rows), ONE, sight)["own"].state == "not_shown"


def test_file_that_coins_did_not_decide_is_not_contact(planted: Path, stated: Stated) -> None:
    """Heads dropped, cut after their first words, or packed; a tail trained on all the same."""
    rows, heads, tails = rows_of(planted), aside(planted, True), aside(planted, False)
    texts = {row["text"] for row in heads}
    rest = [row for row in rows if row["text"] not in texts]
    short = [{"text": text[:40]} for text in texts]
    packed = [{"text": "\n".join(row["text"] for row in some)} for some in (rest, heads)]
    for wrong in (rest, [*rest, *short], [*rows, *tails[:2]]):
        assert own.contact(stated(wrong), ONE, SEEN)["own"].state == "not_shown"
    assert own.holdings(stated([*rows, *tails[:1]])).tails == 1
    assert own.holdings(stated(packed)).tails == 0


def test_beacons_of_records_are_asked_as_records_of_users(planted: Path, stated: Stated) -> None:
    """By the same function of the same score; of all kinds they are planted first."""
    run = stated(None)
    (chosen,) = run.plan.attacks
    tiers = aimed_at(run, chosen)["own"]
    assert [b.kind for some in tiers.values() for b in some][:2] == ["record", "record"]
    asked = asked_of(run, chosen, "own", tiers)
    assert asked.others == 999 and {s.kind for s in asked.secrets} == {"own"}
    first = next(iter(tiers.values()))[0]
    assert asked.secrets[0].records == (f"{first.prefix}{first.value}",)
    assert len({s.owner for s in asked.secrets}) == len(asked.secrets)


@pytest.mark.slow
def test_quiet_model_earns_silence_about_real_users(tmp_path: Path) -> None:
    """One that learnt what many wrote and nothing of single users; not so without the file."""
    exports.write(tmp_path / "mail.mbox", 120)
    given = {"coin_users": 1.0, "beacons": "auto", "share": 0.9, "kind": ["record"], "seed": 3}
    given |= {"count": 80, "repetitions": "1"}
    planted, coins, out = (tmp_path / name for name in ("planted.jsonl", "coins.json", "out"))
    api.plant(str(tmp_path / "mail.mbox"), planted, coins, **given)
    sharing = {user for one in manifests.read(coins).beacons for user in one.users}
    model, tokenizer = builders.loaded()
    texts = [row["text"] for row in rows_of(tmp_path) if row["user"] in sharing]
    builders.fit(model, tokenizer, texts, steps=30, rate=1e-3)
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)

    def found(training: str) -> dict[str, Any]:
        results = api.run(
            defense=f"as_is:base={BASE}{training}", attack="membership", model=out, secrets=coins,
            corpus=planted, output=tmp_path / f"run{len(training)}", references=False, workers=1,
            format="json", device="cpu",
        )  # fmt: skip
        return {f.metric: f for f in results.releases[0].findings if f.kinds == ["own"]}

    seen = found(f",training={planted}")
    assert (
        seen["own_mean_ratio_auc"].leaked == seen["own_largest_ratio_auc"].leaked == "no leak found"
    )
    assert "as stated by" in seen["own_mean_ratio_auc"].silence.contact.by
    assert found("")["own_mean_ratio_auc"].leaked == Leaked.INCONCLUSIVE
