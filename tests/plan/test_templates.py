"""Words around planted values in a plan: drawn by its seed, or a user's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from audit.core.corpus import Corpus, Record
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.core.secret import KINDS, ON_REQUEST
from audit.core.wording import WORDED
from audit.plan.plan import Plan
from audit.plan.resolve import resolve_on
from audit.planting.kinds import wording
from tests.refusals import refusals

MODEL = ModelFolder("tiny", Path("/somewhere/tiny"), "f" * 64, 1000, 50, 64)
OLDER = {"code_prefix": "My code is #", "id_prefix": "My ID is #"}


def corpus(name: str | None = None) -> Corpus:
    rows = [Record(f"u{i}", f"text {i}", name and f"{name} {i}", "private") for i in range(20)]
    return Corpus("own", (*rows, Record("h", "held out", None, "heldout")))


def planned(table: dict[str, Any] | None = None, of: Corpus | None = None, seed: int = 0) -> Plan:
    settings = {"defense": ("submix",), "attack": ("extraction",), "device": "cpu", "seed": seed}
    return resolve_on({**settings, "planting": table or {}}, of or corpus(), MODEL)


def words(plan: Plan) -> dict[str, tuple[str, str]]:
    planted = plan.source.plant(plan.corpus, plan.seed, len)
    found = {(s.kind, s.prefix, s.suffix) for s in planted.secrets if s.kind in WORDED}
    assert len(found) == len({kind for kind, *_ in found})  # one wording a kind
    return {kind: (prefix, suffix) for kind, prefix, suffix in found}


EVERY = {"kinds": [*KINDS], "pattern": "EMP-[0-9]{6}"}


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_plan_draws_its_words_by_its_seed(seed: int) -> None:
    drawn = {kind: wording(kind, seed) for kind in WORDED}
    assert words(planned(EVERY, seed=seed)) == {k: (w.prefix, w.suffix) for k, w in drawn.items()}


def test_plans_differ_by_the_seed_alone() -> None:
    """So the common part of a sweep's plans is common, and runs the same sweep again."""
    one, other = (planned(seed=seed).document for seed in (0, 1))
    assert {**one, "seed": 1} == other
    assert one["planting"]["code_prefix"] is None and "code_suffix" not in one["planting"]


def test_older_plans_are_what_they_were() -> None:
    """Plans with fixed words, made before the others could be set, keep document and hash."""
    plan = planned({**OLDER, "kinds": ["code", "id"], "users": 4})
    assert plan.document["planting"] == {
        "users": 4,
        "kinds": ("code", "id"),
        "code_digits": 5,
        "code_copies": 4,
        "code_prefix": "My code is #",
        "id_digits": 6,
        "id_copies": (1, 0, 4, 0, 16, 0),
        "id_prefix": "My ID is #",
        "name_copies": 4,
    }
    assert words(plan) == {"code": ("My code is #", "."), "id": ("My ID is #", ".")}


def test_a_template_is_the_prefix_of_older_plans() -> None:
    table = {"code_template": "My code is #{value}.", "id_template": "My ID is #{value}."}
    assert planned(table).hash == planned(OLDER).hash != planned().hash


def test_prefixes_no_template_may_have_are_kept() -> None:
    assert words(planned({"code_prefix": "1:\n"}))["code"] == ("1:\n", ".")


def test_a_template_gives_both_sides_of_the_value() -> None:
    """Each side of each kind is a part of the plan."""
    plain = planned(EVERY)
    for kind in WORDED:
        plan = planned({**EVERY, f"{kind}_template": "Ask for {value}, please"})
        assert words(plan) == {**words(plain), kind: ("Ask for ", ", please")}
        assert plan.document["planting"][f"{kind}_suffix"] == ", please"
        assert "--plan PLAN.toml" in plan.command
        texts = ("A #{value}.", "B #{value}.", "A #{value}!", "A #{value}")
        hashes = {planned({**EVERY, f"{kind}_template": text}).hash for text in texts}
        assert len(hashes | {plain.hash}) == 5


def test_words_that_do_not_work_are_refused() -> None:
    refusals(
        planned,
        [
            ({"id_template": "A 5{value}"}, "planting: id_template is 'A 5{value}': its digits"),
            *(
                (
                    {"code_template": "A {value}", f"code_{end}": "A "},
                    f"code_template and code_{end} are both given",
                )
                for end in ("prefix", "suffix")
            ),
            *(
                (
                    {f"{kind}_template": "Ask for {value}"},
                    f"{kind}_template is given, but no {kind} is planted",
                )
                for kind in ON_REQUEST
            ),
        ],
    )


def test_names_of_the_corpus_get_no_words() -> None:
    of = corpus(name="Ann")
    assert "name" not in words(planned({"kinds": ["code"]}, of))
    plan = planned({"name_template": "Ask for {value}"}, of)
    with pytest.raises(UsageError, match="name_template is for drawn names, but corpus own"):
        plan.source.plant(of, 0, len)


def test_a_pattern_and_its_kind_are_given_together() -> None:
    with pytest.raises(UsageError, match=r"^planting\.pattern is not given, but the kind"):
        planned({"kinds": ["pattern"]})
    with pytest.raises(UsageError, match=r"add it to planting\.kinds$"):
        planned({"pattern": "EMP-[0-9]{6}"})
    plan = planned({"kinds": ["pattern"], "pattern": "EMP-(0|1)"})
    with pytest.raises(UsageError, match=r"^planting\.pattern is 'EMP-\(0\|1\)': it has '\('"):
        plan.source.plant(plan.corpus, 0, len)


def test_kinds_on_request_leave_others_alone() -> None:
    """The plan of a run without them says nothing of them, so it keeps its hash."""
    said = planned().document["planting"]
    assert not [name for name in said if name.split("_")[0] in ON_REQUEST]
    plain, more = planned(), planned(EVERY)
    own, all_of = (plan.source.plant(plan.corpus, 0, len).secrets for plan in (plain, more))
    assert own == tuple(secret for secret in all_of if secret.kind not in ON_REQUEST)
    assert {s.kind for s in all_of} - {s.kind for s in own} == set(ON_REQUEST)
