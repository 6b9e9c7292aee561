"""Evidence on its way through a stage, the ledger's sums, and what a dry run promises."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit import dry_run
from audit.attack import Attack, Evidence, Hits, Likelihoods
from audit.corpus import Corpus, Record
from audit.embedded import EMBEDDED_FOLDER
from audit.errors import UsageError
from audit.folder import RunFolder, read_lines
from audit.language_model import OpenSession
from audit.measurement import _attack, _evidence
from audit.models.loading import describe
from audit.plan import Plan, make_plan
from audit.predictor import Access, Predictor, Tokenizer
from audit.secrets import Secret
from audit.session import curve, spent


@dataclass(frozen=True)
class Asks(Attack):
    """Asks for two generations of three tokens and hands back the evidence it was made with."""

    evidence: Any = None
    reads: bool = False
    kinds = ("code",)
    access = Access.GENERATE

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        return 6

    def trials(self) -> int:
        return 2

    def run(self, predictor: Predictor, secrets: Sequence[Secret]) -> Evidence:
        if self.reads:
            predictor.score([[0]], [[1, 2]])
        predictor.generate([[0], [0]], 3)
        return self.evidence  # type: ignore[no-any-return]


@pytest.fixture
def looked(bigram: Any, tmp_path: Path) -> Any:
    """looked(evidence) -> (what comes out of the stage, queries, answered, samples)."""
    folder = RunFolder(tmp_path / "run", "hash")

    def look(evidence: Evidence) -> tuple[Evidence, int, int, list[dict[str, Any]]]:
        session = OpenSession(bigram(0), np.random.default_rng(0))
        with folder.held({}):
            seen, queries, answered = _attack(Asks(evidence), [], folder, "a/b", False, session)
        again = json.loads(json.dumps(seen))
        return _evidence(again), queries, answered, read_lines(folder.path / "samples.jsonl")

    return look


def test_evidence_survives_its_stage_but_texts_do_not(looked: Any) -> None:
    hits = Hits(np.array([0, -1, 5]), repeats=(2, 1), texts=("40718", "x", "40718"))
    likelihoods = Likelihoods(np.array([-1.25, np.nan, -np.inf, -0.1 - 0.2]))
    found, queries, answered, rows = looked(Evidence(hits, likelihoods))
    assert found.hits.found.tolist() == [0, -1, 5]
    assert (found.hits.repeats, found.hits.texts) == ((2, 1), ())
    np.testing.assert_array_equal(found.likelihoods.log_probs, likelihoods.log_probs)
    assert (queries, answered) == (6, 6)
    assert [row["length"] for row in rows] == [5, 1, 5] and "40718" not in json.dumps(rows)


def test_evidence_of_nothing_survives_its_stage(looked: Any) -> None:
    found, _, _, rows = looked(Evidence(None, None))
    assert found == Evidence(None, None) and rows == []
    found, *_ = looked(Evidence(Hits(np.array([], dtype=int), ()), None))
    assert len(found.hits.found) == 0 and found.hits.found.dtype.kind == "i"


def row(query: int, charge: list[float], stopped: bool = False) -> dict[str, Any]:
    return {"query": query, "charge": charge, "stopped": stopped}


def test_charges_add_up_until_stop() -> None:
    rows = [row(0, [0.5, 0.25]), row(1, [0.25, 1.0]), row(2, [9.0, 9.0], stopped=True)]
    assert spent(rows) == [[0.5, 0.25], [0.75, 1.25], [0.75, 1.25]]
    assert curve(rows) == [(1, 0.5), (2, 1.25), (3, 1.25)]
    assert curve([]) == []


def test_a_long_curve_is_thinned_and_keeps_its_end() -> None:
    rows = [row(i, [1.0]) for i in range(1000)]
    points = curve(rows)
    assert len(points) <= 65
    assert points[0] == (1, 1.0) and points[-1] == (1000, 1000.0)
    assert all(total == query for query, total in points)


# --- the dry run


def small_plan(**settings: Any) -> Plan:
    records = tuple(
        Record(f"u{i}", f"Hello, I am customer {i}.", None, "heldout" if i % 5 == 4 else "private")
        for i in range(30)
    )
    model = describe("embedded", EMBEDDED_FOLDER)
    asked = {
        "defense": ["none"],
        "attack": ["extraction:generations=20"],
        "planting": {"users": 12, "kinds": ["code"]},
        "training": {"epochs": 2},
        "device": "cpu",
        **settings,
    }
    return make_plan(asked, Corpus("toy", records), model)


def told(tmp_path: Path, **settings: Any) -> str:
    return dry_run.describe(small_plan(**settings), RunFolder(tmp_path / "run", "hash"))


def test_a_dry_run_says_what_would_be_asked_and_shown(tmp_path: Path) -> None:
    said = told(tmp_path)
    assert "12 users decided by coin" in said
    assert "rate of 13.9 %" in said  # 1 − 0.05^(1/20)
    assert f"extraction:generations=20: {20 * 5 + 24 * 5} " in said  # 12 users, two codes each
    assert "none: 1 training," in said and "public: 0 trainings, 0 tokens" in said
    assert not (tmp_path / "run").exists()


def test_an_attack_whose_secrets_were_not_planted_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="code"):
        told(tmp_path, planting={"users": 12, "kinds": ["id"]})


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("access", [Access.GENERATE, Access.SCORE])
def test_samples_that_rest_on_unreleased_probabilities_are_marked(
    bigram: Any, tmp_path: Path, reads: bool, access: Access
) -> None:
    folder = RunFolder(tmp_path / "run", "hash")
    session = OpenSession(bigram(0), np.random.default_rng(0), access=access)
    attack = Asks(Evidence(Hits(np.array([-1]), (1,)), None), reads=reads)
    with folder.held({}):
        seen, queries, _ = _attack(attack, [], folder, "a/b", False, session)
    hits = _evidence(json.loads(json.dumps(seen))).hits
    assert hits is not None and hits.stronger == (reads and access is Access.GENERATE)
    assert queries == 6 + 2 * reads
