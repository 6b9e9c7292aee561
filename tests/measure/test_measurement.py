"""What an attack is given and hands back, the ledger's sums, and what a dry run promises."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from audit.core.attack import Attack, Knowledge
from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Hits, Likelihoods, Mentions, Ranks, from_json
from audit.core.files import read_lines
from audit.core.guarantee import no_guarantee
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, Predictor
from audit.core.release import ModelRelease
from audit.core.secret import Secret
from audit.measure.bench import Bench
from audit.measure.release import _attack, _measured_utility
from audit.measure.releases import Audited
from audit.measure.spending import curve, spent
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_weights
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.prepare.prepare import prepare
from audit.results.folder import RunFolder
from audit.results.schema import Measure
from audit.run import dry_run


@dataclass(frozen=True)
class Asks(Attack):
    """Asks for two generations of three tokens and hands back the evidence it was made with."""

    evidence: Any = ()
    reads: str = ""  # "before" it generates, or "after"
    shadows: int = 0
    met: list[tuple[Predictor, Sequence[Secret], Knowledge]] = field(default_factory=list)
    kinds = ("code",)
    access = Access.GENERATE

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        return [Hits.missed(2)]

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        self.met.append((predictor, secrets, knowledge))
        if self.reads == "before":
            predictor.score([[0]], [[1, 2]])
        predictor.generate([[0], [0]], 3)
        if self.reads == "after":
            predictor.score([[0]], [[1, 2]])
        return self.evidence  # type: ignore[no-any-return]


def small_plan(**settings: Any) -> Plan:
    """30 users, six of them held out; named, so that a name is a secret of each of twelve."""
    records = tuple(
        Record(
            f"u{i}",
            f"Hello, I am Customer {i}x.",
            f"Customer {i}x",
            "heldout" if i % 5 == 4 else "private",
        )
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
    return resolve_on(asked, Corpus("toy", records), model)


@pytest.fixture
def looked(bigram: Any, tmp_path: Path) -> Any:
    """looked(attack) -> (what comes out of the stage, queries, answered, samples)."""
    folder = RunFolder(tmp_path / "run", "hash")
    prepared = prepare(small_plan(), folder.stages)

    def look(attack: Asks, access: Access = Access.DISTRIBUTION, external: bool = False) -> Any:
        toy = ModelRelease(bigram(0), promise=None)  # type: ignore[arg-type]
        one: Any = SimpleNamespace(
            label="a",
            public=bigram(3),
            external=external,
            shadows=lambda: [toy] * len(prepared.shadow_coins),
        )
        chosen: Any = SimpleNamespace(label="b", plugin=attack)
        session = OpenSession(bigram(0), np.random.default_rng(0), access=access)
        with folder.held({}):
            seen, queries, answered = _attack(Bench(prepared, folder), one, chosen, session)
        again = json.loads(json.dumps(seen))
        rows = read_lines(folder.path / "samples.jsonl")
        return again, queries, answered, rows

    return look


def test_evidence_survives_its_stage_but_texts_do_not(looked: Any) -> None:
    hits = Hits(np.array([0, -1, 5]), repeats=(2, 1), texts=("40718", "x", "40718"))
    likelihoods = Likelihoods(np.array([-1.25, np.nan, -np.inf, -0.1 - 0.2]))
    named = Mentions(((0,), ()), np.array([1.0, 0.0]), texts=("I am Ann Lee", ""))
    ranks = Ranks(*[np.array([1.0, np.nan])] * 8)
    seen, queries, answered, rows = looked(Asks([hits, likelihoods, named, ranks]))
    found = list(map(from_json, seen["evidence"]))
    assert [type(e) for e in found] == [Hits, Likelihoods, Mentions, Ranks]
    assert found[0].found.tolist() == [0, -1, 5]  # type: ignore[attr-defined]
    assert (found[0].repeats, found[0].texts) == ((2, 1), ())  # type: ignore[attr-defined]
    np.testing.assert_array_equal(found[1].log_probs, likelihoods.log_probs)  # type: ignore[attr-defined]
    assert (queries, answered) == (6, 6)
    assert [row["length"] for row in rows] == [5, 1, 5, 12, 0]
    assert "40718" not in json.dumps(rows) and "Ann" not in json.dumps([rows, seen])


def test_evidence_of_nothing_survives_its_stage(looked: Any) -> None:
    seen, _, _, rows = looked(Asks([]))
    assert seen["evidence"] == [] and rows == []
    seen, *_ = looked(Asks([Hits(np.array([], dtype=int), ())]))
    (found,) = map(from_json, seen["evidence"])
    assert len(found.found) == 0 and found.found.dtype.kind == "i"  # type: ignore[attr-defined]


def test_an_attack_knows_what_is_public_or_held_out_and_nothing_private(looked: Any) -> None:
    attack = Asks([])
    looked(attack)
    looked(attack)
    (_, secrets, knowledge), (_, _, again) = attack.met
    assert len(secrets) == 24 and {s.kind for s in secrets} == {"code"}
    heldout = [i for i in range(30) if i % 5 == 4]
    assert knowledge.texts == tuple(f"Hello, I am Customer {i}x." for i in heldout)
    assert knowledge.names == tuple(f"Customer {i}x" for i in heldout)
    assert knowledge.shadows == ()
    assert knowledge.public.remaining is None
    draws = [k.stream.random(4).tolist() for k in (knowledge, again)]
    assert draws[0] == draws[1]  # the same session is the same attacker
    said = [[a.tokens for a in k.public.generate([[0]] * 3, 4)] for k in (knowledge, again)]
    assert said[0] == said[1]


@pytest.mark.parametrize(("external", "opened"), [(False, True), (True, None)])
def test_how_texts_were_opened_is_known_of_a_training_here_only(
    looked: Any, external: bool, opened: bool | None
) -> None:
    attack = Asks([])
    looked(attack, external=external)
    ((_, _, knowledge),) = attack.met
    assert knowledge.opened is opened


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


def told(tmp_path: Path, **settings: Any) -> str:
    return dry_run.describe(small_plan(**settings), RunFolder(tmp_path / "run", "hash"))


def test_a_dry_run_says_what_would_be_asked_and_shown(tmp_path: Path) -> None:
    said = told(tmp_path)
    assert "12 users decided by coin" in said
    planted = int(re.findall(r"(\d+) trained on", said)[0])  # one of them, in 20 tries
    assert f"rate of {100 * planted * (1 - 0.2 ** (1 / (20 * planted))):.3g} %" in said
    asked = 20 * 5 + 24 * 5 + 11_111  # 12 users, two codes each; a search of all prefixes
    assert f"extraction:generations=20: up to {asked:,} token queries, " in said
    assert "none: 1 training," in said and "public: 0 trainings, 0 tokens" in said
    assert not (tmp_path / "run").exists()


def smallest_rate(said: str) -> float:
    """In percent."""
    return float(re.findall(r"rate of ([\d.]+) %", said)[0])


def test_chance_hits_in_a_small_space_raise_what_a_run_can_show(tmp_path: Path) -> None:
    planting = {"users": 12, "kinds": ["code"], "code_digits": 2}
    assert smallest_rate(told(tmp_path, planting=planting)) > 20


def test_records_beside_the_codes_do_not_sharpen_what_a_run_can_show(tmp_path: Path) -> None:
    planting = {"users": 12, "kinds": ["code", "record"], "code_digits": 2}
    assert smallest_rate(told(tmp_path, planting=planting)) > 20


def test_an_attack_whose_secrets_were_not_planted_is_refused_beforehand(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="code"):
        told(tmp_path, planting={"users": 12, "kinds": ["id"]})


@pytest.mark.parametrize("reads", ["", "before", "after"])
@pytest.mark.parametrize("access", [Access.GENERATE, Access.SCORE])
def test_samples_that_rest_on_unreleased_probabilities_are_marked(
    looked: Any, reads: str, access: Access
) -> None:
    attack = Asks([Hits(np.array([-1]), (1,))], reads=reads)
    seen, queries, *_ = looked(attack, access)
    assert seen["tainted"] == (reads == "before" and access is Access.GENERATE)
    assert queries == 6 + 2 * bool(reads)


# --- the best step


def test_utility_is_that_of_the_best_step_and_what_is_left_at_the_end_stands_beside_it(
    tmp_path: Path,
) -> None:
    """A model that overfits is compared at its best; its leaks are those of the end."""
    folder = RunFolder(tmp_path / "run", "hash")
    prepared = prepare(small_plan(), folder.stages)
    base = prepared.plan.model
    good = CausalLM(load_weights(base, "cpu"), prepared.tokenizer, base.max_length)
    inner = load_weights(base, "cpu")
    with torch.no_grad():
        for weight in inner.parameters():
            weight.mul_(1.5)  # no longer any good
    bad = replace(good, inner=inner)

    def measured(release: ModelRelease, key: str) -> dict[str, Measure]:
        one: Any = Audited(
            name="none", label="none", parameters={}, reference=True, role="positive control",
            release=release, keys=(key,), train_tokens=0, public=good, shadows=list,
        )  # fmt: skip
        with folder.held({}):
            return _measured_utility(Bench(prepared, folder), one)[0]

    promise = no_guarantee("a toy")
    both = measured(ModelRelease(bad, promise, best=(good, 0.25)), "both")
    end = measured(ModelRelease(bad, promise), "end")
    best = measured(ModelRelease(good, promise), "best")
    assert both["perplexity"].value == best["perplexity"].value < end["perplexity"].value
    assert both["perplexity_at_end"].value == end["perplexity"].value
    assert (both["perplexity"].share, both["perplexity_at_end"].share) == (0.25, None)
    assert "perplexity_at_end" not in end and end["perplexity"].share is None
    assert (both["bleu4_full"].share, best["bleu4_full"].share) == (0.25, None)
