"""What an attack owes, tried on a toy: no coin, no query too many, and the same evidence again."""

from __future__ import annotations

import json
from collections.abc import Sequence

from audit.contract import toys
from audit.contract.imports import COINS, nouns, within
from audit.contract.plugin import imports_of
from audit.core.attack import Attack
from audit.core.evidence import Evidence, from_json, to_json
from audit.core.predictor import Access
from audit.core.secret import KINDS
from audit.findings import Case, Finding, findings_of
from audit.measure.samples import Counted

_HIDDEN = ("defenses", *nouns("defense", "guarantee", "ledger", "release"))


def declares_what_it_needs(attack: Attack) -> None:
    """Kinds of secrets that can be planted, an access, and whole numbers of trials and shadows."""
    name, unknown = type(attack).__name__, set(attack.kinds) - set(KINDS)
    assert attack.kinds and not unknown, f"{name}.kinds must be some of {', '.join(KINDS)}"
    assert isinstance(attack.access, Access), f"{name}.access must be an audit.core.Access"
    assert attack.trials() >= 1, f"{name}.trials() must be at least 1"
    assert isinstance(attack.shadows, int), f"{name}.shadows must be a whole number"
    assert attack.shadows >= 0, f"{name}.shadows cannot be negative"


def sees_no_coin_and_no_defense(attack: Attack) -> None:
    """It scores candidates; who was planted, by whom and under what promise is not its to know."""
    found = within(imports_of(attack), *COINS, *_HIDDEN)
    assert not found, f"{type(attack).__name__} imports {found and found[0]}, hidden from attacks"


def asks_no_more_than_it_says(attack: Attack) -> None:
    """`queries` bounds a full run: the dry run and the cost rest on it."""
    _, counted = _attacked(attack)
    most = attack.queries(toys.secrets(attack.kinds), counted.tokenizer)
    name = type(attack).__name__
    assert counted.queries > 0, f"{name} asks nothing of an open session"
    assert counted.queries <= most, f"{name} asks {counted.queries} queries; it says {most}"


def asks_no_more_than_is_left(attack: Attack) -> None:
    """A session's budget is public: what does not fit is left out beforehand."""
    for limit in (0, 1, 7, 40, 300):
        _, counted = _attacked(attack, limit=limit)
        told = f"{type(attack).__name__} asks {counted.queries} queries of {limit} that are left"
        assert counted.queries <= limit, told


def reads_nothing_that_cannot_be_read(attack: Attack) -> None:
    """Where `readable` ends, it has to do with less."""
    for access in (Access.GENERATE, Access.SCORE):
        _, counted = _attacked(attack, access)
        told = f"{type(attack).__name__} reads more than {access.word} from what gives no more"
        assert not counted.read, told


def generates_before_it_reads(attack: Attack) -> None:
    """Else all samples of a release that gives samples would be stronger than it."""
    _, counted = _attacked(attack, Access.GENERATE, readable=Access.DISTRIBUTION)
    told = f"{type(attack).__name__} generates after it has read beyond the release's access"
    assert not counted.generated_after_reading, told


def does_without_a_public_model(attack: Attack) -> None:
    """Of a model that others trained, the one it started from may be unknown."""
    try:
        evidence, _ = _attacked(attack, public=False)
    except Exception as error:  # whatever it is, the attack needed what it may not have
        told = f"{type(attack).__name__} fails without knowledge.public: {error!r}"
        raise AssertionError(told) from error
    told = f"{type(attack).__name__} gives no evidence without knowledge.public"
    assert _findings(attack, evidence, Access.DISTRIBUTION), told


def gives_the_same_evidence_again(attack: Attack) -> None:
    """All its randomness is `knowledge.stream`'s: the same session, the same evidence."""
    one, other = ([to_json(e) for e in _attacked(attack)[0]] for _ in range(2))
    assert one == other, f"{type(attack).__name__}: the same session gave different evidence"


def gives_findings_within_its_tests(attack: Attack) -> None:
    """Its evidence becomes findings, of no more tests than the verdicts are adjusted for."""
    name, tests = type(attack).__name__, attack.tests(toys.secrets(attack.kinds))
    for access in Access:
        evidence, _ = _attacked(attack, access)
        found = _findings(attack, evidence, access)
        assert found, f"{name} finds nothing in a session that gives {access.word}"
        metrics = [finding.metric for finding in found]
        assert len(set(metrics)) == len(metrics), f"{name} finds one metric twice: {metrics}"
        made = len({f.test for f in found if f.p_value is not None})
        assert made <= tests, f"{name} makes {made} tests; it says {tests}"
        kept = [from_json(json.loads(json.dumps(to_json(e)))) for e in evidence]
        again = _findings(attack, kept, access)
        assert again == found, f"{name}: evidence that was stored and read gives other findings"


def finds_nothing_stronger_than_the_release(attack: Attack) -> None:
    """Evidence says which access it needs: what a release gives is not called stronger than it."""
    for access in Access:
        for finding in _findings(attack, _attacked(attack, access)[0], access):
            fine = finding.interval.value is None or not finding.stronger_than_release
            assert fine, f"{type(attack).__name__}: {finding.metric} is beyond {access.word}"


def _attacked(
    attack: Attack,
    access: Access = Access.DISTRIBUTION,
    readable: Access | None = None,
    limit: int | None = None,
    public: bool = True,
) -> tuple[Sequence[Evidence], Counted]:
    """The evidence of one session with the toy, and the session."""
    secrets = toys.secrets(attack.kinds)
    counted = Counted(toys.session(access, readable or access, limit))
    known = toys.knowledge(attack.shadows, secrets, public)
    return attack.run(counted, secrets, known), counted


def _findings(attack: Attack, evidence: Sequence[Evidence], access: Access) -> list[Finding]:
    secrets = toys.secrets(attack.kinds)
    tests = attack.tests(secrets)
    return findings_of(evidence, Case("toy", secrets, toys.COINS, 0.0, 0, access, tests=tests))


CHECKS = (
    declares_what_it_needs,
    sees_no_coin_and_no_defense,
    asks_no_more_than_it_says,
    asks_no_more_than_is_left,
    reads_nothing_that_cannot_be_read,
    generates_before_it_reads,
    does_without_a_public_model,
    gives_the_same_evidence_again,
    gives_findings_within_its_tests,
    finds_nothing_stronger_than_the_release,
)
