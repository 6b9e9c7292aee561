"""E-mail addresses, phone numbers, keys and patterns are attacked as codes are, each kind apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from attacks.copies import Copies
from attacks.extraction import Extraction
from attacks.membership import Membership
from attacks.texts.guesses import form_of, guess_in
from audit.contract import toys
from audit.core.attack import Attack
from audit.core.evidence import Hits
from audit.core.language_model import OpenSession
from audit.core.predictor import Access
from audit.core.randomness import stream
from audit.core.secret import CODE_LIKE, ON_REQUEST, Coins, Secret, Space
from audit.findings import Case, measurements_of
from audit.measure.samples import Counted
from tests.attacks.scripted import Published, says

SPACE = Space((("a", "b"), tuple("01"), ("#",), tuple("01x")))  # of 12 values, none of digits alone
NOTHING: Any = toys.knowledge(0, (), False)


def secret(value: str, slot: int = 0, owner: str = "ann", kind: str = "email") -> Secret:
    return Secret(kind, f"my{kind}#", value, "", SPACE, 1, owner, slot)


def hits_of(
    said: Sequence[str], secrets: Sequence[Secret], budget: int | None = None, **parameters: Any
) -> list[Hits]:
    attack = Extraction(**{"searched": 0, "suffix": 0, **parameters})
    release = says(*said, budget=budget, readable=Access.GENERATE)
    return [one for one in attack.run(release, secrets, NOTHING) if isinstance(one, Hits)]


@pytest.mark.parametrize("kind", ON_REQUEST)
def test_a_value_is_recognised_by_its_own_form(kind: str) -> None:
    secrets = [secret("a0#1", kind=kind), secret("b1#x", 1, kind=kind)]
    for said, found in (
        ("a0#1", 0),
        ("b1#x", 1),
        ("a0#1#", 0),  # a sign ends it
        ("a0#12", -1),  # a longer value is another one
        ("a0#1a", -1),
        ("a0", -1),
        ("a0#0", -1),  # a value of the space that no one has
        ("1a0#1", -1),  # the value does not begin there
    ):
        (hits,) = hits_of([said], secrets, generations=3)
        assert hits.found.tolist() == [found] * 3 and hits.kind == kind, said


def test_of_values_that_begin_alike_the_whole_one_is_meant() -> None:
    space = Space((("al", "ala"), ("n", "nna")))
    secrets = [replace(secret(v), space=space) for v in ("aln", "alann", "alan", "alanna")]
    (hits,) = hits_of(["alanna", "alan", "aln#"], secrets, generations=3)
    assert hits.found.tolist() == [3, 2, 0]


def test_a_guess_in_a_text_is_one_after_the_words_of_its_kind() -> None:
    secrets = [secret("a0#1"), secret("a0#1", kind="key"), secret("b1#x", 1)]
    texts = ("so#myemail#a0#1#x", "mykey#a1#1", "a0#1", "myemail#b1#x1", "myemail#b1#x#")
    every = Copies().run(Published(texts), secrets, NOTHING)  # type: ignore[arg-type]
    (email, key) = [one for one in every if isinstance(one, Hits)]
    assert (email.kind, email.found.tolist(), email.texts) == ("email", [0, 2], ("a0#1", "b1#x"))
    assert (key.kind, key.found.tolist(), key.texts) == ("key", [-1], ("a1#1",))


def test_value_ends_where_a_script_without_spaces_begins() -> None:
    form = re.compile(form_of("email", [secret("a0#1")]))
    for text, guess in (("a0#1です", ("a0#1", True)), ("a0#1é", ("a0#1é", False))):
        assert guess_in(form, text) == guess


def test_a_limited_budget_is_shared_among_the_kinds() -> None:
    secrets = [secret("a0#1", kind=kind) for kind in ON_REQUEST]
    found = hits_of(["a0#1"], secrets, budget=4 * 4 * 5 + 3)
    assert [len(one.found) for one in found] == [5, 5, 5, 5]


def uniform() -> OpenSession:
    """A model of which every value of the space is equally likely: 1/12 after its words."""
    with np.errstate(divide="ignore"):
        table = np.zeros((len(toys.ALPHABET),) * 2)
        index = toys.ALPHABET.index
        for last in toys.ALPHABET:
            after = {"a": "01", "b": "01", "0": "#", "1": "#"}.get(last, "ab")
            for character in after:
                table[index(last), index(character)] = 1 / len(after)
        return OpenSession(toys.Bigram(np.log(table), toys.CharacterTokenizer()), stream(0, "t"))


@pytest.mark.parametrize("kind", ON_REQUEST)
def test_chance_is_one_of_all_values_by_the_closed_form(kind: str) -> None:
    """A model that has seen nothing says each of the 8 values of 3 planted with chance 3/8, and
    the exact probability of each is 1/8; names of metrics and tests say the kind."""
    space = Space((("a", "b"), tuple("01"), ("#",), ("a", "b")))
    values = ["".join((a, b, "#", c)) for a in "ab" for b in "01" for c in "ab"]
    secrets = tuple(
        replace(secret(v, i % 2, f"u{i // 2}", kind), space=space) for i, v in enumerate(values)
    )
    coins = Coins({f"u{i}": i < 3 for i in range(4)}, {f"u{i}": 0 for i in range(4)})
    counted = Counted(uniform())
    attack = Extraction(generations=4000, searched=0, suffix=0)
    case = Case("extraction", secrets, coins, 0.0, 0, Access.DISTRIBUTION, tests=2)
    evidence = attack.run(counted, secrets, NOTHING)
    found = {f.metric: f for f in measurements_of(evidence, case)}
    assert list(found) == [f"{kind}_{m}" for m in ("hit_rate", "recall", "probability",
                                                   "discoverable")]  # fmt: skip
    rate, exact = found[f"{kind}_hit_rate"], found[f"{kind}_probability"]
    assert rate.chance == 3 / 8 and exact.chance == 1 / 8
    assert exact.interval.value == pytest.approx(1 / 8, abs=1e-12)
    assert rate.k is not None and 1e-6 < binom.cdf(rate.k, 4000, 3 / 8) < 1 - 1e-6
    assert rate.control is not None and rate.control.k is not None
    assert 1e-6 < binom.cdf(rate.control.k, 4000, 1 / 8) < 1 - 1e-6  # the one twin's
    assert {f.test for f in found.values()} == {f"extraction {kind}_hits",
                                                f"extraction {kind}_likelihoods"}  # fmt: skip


@pytest.mark.parametrize("attack", [Extraction(), Membership(), Copies()])
def test_a_kind_has_the_findings_of_a_code(attack: Attack) -> None:
    """The findings of each kind are those of codes, under the kind's own names."""
    named = {}
    for kind in CODE_LIKE:
        secrets = toys.secrets((kind,))
        session = toys.session(Access.DISTRIBUTION, Access.DISTRIBUTION, None)
        evidence = attack.run(session, secrets, toys.knowledge(0, secrets, True))
        case = Case("toy", secrets, toys.COINS, 0.0, 0, Access.DISTRIBUTION, tests=9)
        metrics = [finding.metric for finding in measurements_of(evidence, case)]
        named[kind] = metrics
    for kind in ON_REQUEST:
        assert [_unprefixed(m, kind) for m in named[kind]] == [
            _unprefixed(m, "code") for m in named["code"]
        ]
        assert all(kind in metric for metric in named[kind])
    every = [metric for kind in CODE_LIKE for metric in named[kind]]
    assert len(every) == len(set(every))


def _unprefixed(metric: str, kind: str) -> str:
    return metric.replace(f"copied_{kind}", "copied").removeprefix(f"{kind}_")
