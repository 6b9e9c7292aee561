"""The shape of every attack beside what a run of it returns, and the tests that follow from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from attacks.copies import Copies
from attacks.exposure import Exposure
from attacks.extraction import Extraction
from attacks.ledger import LedgerCheck
from attacks.membership import Membership
from attacks.name_leak import NameLeak
from attacks.ngram import NGram
from audit.contract import toys
from audit.core.attack import Attack
from audit.core.evidence import Evidence, Hits, Mentions, Scores
from audit.core.predictor import Access
from audit.core.secret import CODE_LIKE, KINDS, Secret
from audit.findings import Case, Charges, family_of, measurements_of
from audit.findings.bounds import by_guesses
from audit.measure.rehearsal import Rehearsal

# by hand, of one secret kind of each: (tests of a leak, bounds on ε) with the base model. Hits,
# mentions and successes have one test and one of their guesses; a score has its rank test, its top
# test and its guesses, a named one two of its low end, and codes one of which value is planted
FAMILIES = [
    (Exposure(), ("id",), (2 * 2, 2)),  # two tiers: of 1 copy and of 2
    (Extraction(), ("code", "record"), (2 + 1 + 2 + 2, 2 + 1)),
    (Extraction(), CODE_LIKE, (5 * (2 + 1 + 2), 5 * 2)),
    (Extraction(searched=0, suffix=0), ("code", "record"), (2 + 1, 1)),
    (Membership(), ("code", "record"), (2 * 8 * 3 + 1 + 2 * 2, 2 * 8 + 1)),
    (Membership(), ("record",), (8 * 3 + 2, 8)),
    (Membership(shadows=2), ("code", "record"), (2 * 11 * 3 + 1 + 2 * 2, 2 * 11 + 1)),
    (Membership(), CODE_LIKE, (5 * (8 * 3 + 2 + 1), 5 * 9)),
    (NameLeak(), ("name",), (2 + 2, 2)),
    (Copies(), KINDS, (8 * (3 + 2) + 5 * 2, 2 * 8 + 5)),
    (NGram(), ("code", "record"), (2 * 3, 2)),
    (LedgerCheck(), KINDS, (0, 0)),
]
BESIDE_BASE = 4  # scores of a target that need the base model


def attacked(attack: Attack, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
    session = toys.session(Access.DISTRIBUTION, Access.DISTRIBUTION, None)
    return attack.run(session, secrets, toys.knowledge(attack.shadows, secrets, public))


def named(evidence: Evidence) -> tuple[object, ...]:
    """What tells the tests of one evidence from those of another."""
    fields = ("kind", "score", "target", "named", "metric", "unit", "sampled", "access")
    return type(evidence), *(getattr(evidence, field, None) for field in fields)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(("attack", "kinds", "family"), FAMILIES)
def test_shape_counts_the_tests_that_findings_make(
    attack: Attack, kinds: tuple[str, ...], family: tuple[int, int], public: bool
) -> None:
    secrets = toys.secrets(kinds)
    shape, found = attack.shape(secrets, public), attacked(attack, secrets, public)
    assert [named(one) for one in shape] == [named(one) for one in found]
    charges = Charges(2.0, np.ones((256, 2)))
    case = Case("toy", secrets, toys.COINS, 0.0, 0, Access.DISTRIBUTION, charges=charges)
    findings = measurements_of(found, case)
    fewer = 0 if public else BESIDE_BASE * len({one.kind for one in found})
    fewer *= isinstance(attack, Membership)
    count = family_of(shape, secrets)
    assert (count.tests, count.claims) == (family[0] - 3 * fewer, family[1] - fewer)
    # of a named score's two tests of its low end, only one can be made with so few controls
    low_end = sum(isinstance(one, Scores) and one.named for one in shape)
    tests = {f.test for f in findings if not f.charge_test}
    guesses = {f.test for f in findings if f.guesses_p is not None or by_guesses(f.epsilon_lower)}
    assert len(tests) <= count.tests - low_end - len(guesses)  # a value too rare has no guesses
    assert len({f.test for f in findings if f.epsilon_lower}) <= count.claims


@pytest.mark.parametrize(
    ("attack", "kind", "n"),
    [(Extraction(generations=7), "code", 7), (NameLeak(generations=3), "name", 3)],
)
def test_shape_has_as_many_generations_as_a_run(attack: Attack, kind: str, n: int) -> None:
    secrets = toys.secrets((kind,))
    for first, *_ in (attack.shape(secrets, True), attacked(attack, secrets, True)):
        assert isinstance(first, Hits | Mentions)
        assert len(first.found if isinstance(first, Hits) else first.named) == n


@pytest.mark.parametrize(
    ("attack", "kinds", "queries"),
    [
        (Exposure(samples=9), ("id",), 12 * 2 + 11),  # a tree of 1 + 10 prefixes; nothing sampled
        (Exposure(samples=9, budget=5), ("id",), 12 * 2 + 5 + 9 * 2),
        (Extraction(generations=7), ("code",), 7 * 3 + 12 * 3 + 111),
        (Extraction(generations=7, searched=0), ("code",), 7 * 3 + 12 * 3),
        (Extraction(generations=1, searched=9, search="beam"), ("code",), 39 + 1 + 9 + 9),
        (Extraction(suffix=4), ("record",), 6 * 4),  # both values of an owner are one record
        (Membership(), ("code",), 12 * 3),
        (Membership(), ("record",), 6 * 14),  # 13 characters, and the end
        (NameLeak(generations=3, length=7, decoys=0 + 1), ("name",), 3 * 7 + 12 * 2 * 6),
        (Copies(texts=5, length=8), KINDS, 40),
        (NGram(texts=5, length=8), ("code",), 40),
        (LedgerCheck(tokens=50), KINDS, 50),
    ],
)
def test_rehearsal_counts_the_queries(attack: Attack, kinds: tuple[str, ...], queries: int) -> None:
    toy, secrets = toys.bigram(0), toys.secrets(kinds)
    session = Rehearsal(toy.tokenizer, toy.vocabulary, toy.max_length, Access.DISTRIBUTION)
    attack.run(session, secrets, toys.knowledge(attack.shadows, secrets, True))
    assert session.asked.queries == queries
