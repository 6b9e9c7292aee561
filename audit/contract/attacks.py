"""The contract of attacks, checked on a toy: no coins, no excess queries, repeatable evidence."""

from __future__ import annotations

import json
from collections.abc import Sequence

from audit.contract import toys
from audit.contract.imports import COINS, nouns, within
from audit.contract.plugin import imports_of
from audit.core.attack import Attack
from audit.core.evidence import Evidence, from_json, to_json
from audit.core.predictor import Access
from audit.core.secret import ATTACKED
from audit.findings import Case, bounds, family_of, measurements_of
from audit.findings.guesses import name_of
from audit.measure.rehearsal import Rehearsal
from audit.measure.samples import Counted
from audit.results.measurement import Measurement

_HIDDEN = ("defenses", *nouns("defense", "guarantee", "ledger", "release"))


def declares_what_it_needs(attack: Attack) -> None:
    """Check the declared kinds of secrets, access, and numbers of trials and shadows."""
    name, unknown = type(attack).__name__, set(attack.kinds) - set(ATTACKED)
    assert attack.kinds and not unknown, f"{name}.kinds must be some of {', '.join(ATTACKED)}"
    assert isinstance(attack.access, Access), f"{name}.access must be an audit.core.Access"
    assert isinstance(attack.shadows, int), f"{name}.shadows must be a whole number"
    assert attack.shadows >= 0, f"{name}.shadows cannot be negative"
    assert isinstance(attack.neighbours, bool), f"{name}.neighbours must be true or false"


def sees_no_coin_and_no_defense(attack: Attack) -> None:
    """Check that neither coins nor defenses are imported: an attack knows only candidates."""
    hidden = within(imports_of(attack), *COINS, *_HIDDEN)
    assert not hidden, f"{type(attack).__name__} imports {hidden[0]}, which is hidden from attacks"


def can_be_rehearsed(attack: Attack) -> None:
    """Check that a session without a model is queried, in which a dry run counts queries."""
    toy, secrets = toys.bigram(0), toys.secrets(attack.kinds)
    session = Rehearsal(toy.tokenizer, toy.vocabulary, toy.max_length, Access.DISTRIBUTION)
    attack.run(session, secrets, toys.knowledge(attack.shadows, secrets, public=True))
    assert session.asked.queries > 0, f"{type(attack).__name__} asks nothing of an open session"


def asks_no_more_than_is_left(attack: Attack) -> None:
    """Check that queries beyond a session's public budget are left out beforehand."""
    for limit in (0, 1, 7, 40, 300):
        _, counted = _attacked(attack, limit=limit)
        message = f"{type(attack).__name__} makes {counted.queries} of {limit} that are left"
        assert counted.queries <= limit, message


def reads_nothing_that_cannot_be_read(attack: Attack) -> None:
    """Check that no more than `readable` is read, and that less access suffices."""
    for access in (Access.GENERATE, Access.SCORE):
        _, counted = _attacked(attack, access)
        message = f"{type(attack).__name__} reads more than {access.word}, which is not readable"
        assert not counted.read, message


def generates_before_it_reads(attack: Attack) -> None:
    """Check that reads beyond the release's access come only after all sampling."""
    _, counted = _attacked(attack, Access.GENERATE, readable=Access.DISTRIBUTION)
    message = f"{type(attack).__name__} generates after it has read beyond the release's access"
    assert not counted.generated_after_reading, message


def does_without_a_public_model(attack: Attack) -> None:
    """Check that no public model is needed, which is unknown for some external models."""
    try:
        evidence, _ = _attacked(attack, public=False)
    except Exception as error:  # of any kind: the attack used what may be missing
        message = f"{type(attack).__name__} fails without knowledge.public: {error!r}"
        raise AssertionError(message) from error
    findings = _findings(attack, evidence, Access.DISTRIBUTION)
    assert findings, f"{type(attack).__name__} gives no evidence without knowledge.public"
    _within_its_shape(attack, findings, public=False)


def gives_the_same_evidence_again(attack: Attack) -> None:
    """Check that equal sessions give equal evidence, by `knowledge.stream` alone."""
    first, second = ([to_json(e) for e in _attacked(attack)[0]] for _ in range(2))
    assert first == second, f"{type(attack).__name__}: the same session gave different evidence"


def gives_findings_within_its_tests(attack: Attack) -> None:
    """Check that evidence becomes findings, with no more tests than its shape has."""
    name = type(attack).__name__
    for access in Access:
        evidence, _ = _attacked(attack, access)
        findings = _findings(attack, evidence, access)
        assert findings, f"{name} finds nothing in a session that gives {access.word}"
        metrics = [finding.metric for finding in findings]
        assert len(set(metrics)) == len(metrics), f"{name} gives one metric twice: {metrics}"
        _within_its_shape(attack, findings, public=True)
        stored = [from_json(json.loads(json.dumps(to_json(e)))) for e in evidence]
        again = _findings(attack, stored, access)
        assert again == findings, f"{name}: stored and reloaded evidence gives other findings"


def finds_nothing_stronger_than_the_release(attack: Attack) -> None:
    """Check that evidence declares its access, so that no attack exceeds the release."""
    for access in Access:
        for finding in _findings(attack, _attacked(attack, access)[0], access):
            fine = finding.value is None or not finding.stronger_than_release
            assert fine, f"{type(attack).__name__}: {finding.metric} is beyond {access.word}"


def _within_its_shape(attack: Attack, findings: Sequence[Measurement], public: bool) -> None:
    """Raise AssertionError for more tests, or more bounds on ε, than `shape` lets expect."""
    name, secrets = type(attack).__name__, toys.secrets(attack.kinds)
    family = family_of(attack.shape(secrets, public), secrets)
    beside = "" if public else " without knowledge.public"
    guessed = {name_of(f.test) for f in findings if bounds.by_guesses(f.epsilon_lower)}
    tests = len({f.test for f in findings if f.p_value is not None} | guessed)
    assert tests <= family.tests, f"{name} makes {tests} tests{beside}; its shape {family.tests}"
    claims = len({f.test for f in findings if f.epsilon_lower})
    assert claims <= family.claims, f"{name} bounds ε {claims} times; its shape {family.claims}"


def _attacked(
    attack: Attack,
    access: Access = Access.DISTRIBUTION,
    readable: Access | None = None,
    limit: int | None = None,
    public: bool = True,
) -> tuple[Sequence[Evidence], Counted]:
    """Attack one session with the toy; return the evidence and the session."""
    secrets = toys.secrets(attack.kinds)
    counted = Counted(toys.session(access, readable or access, limit))
    known = toys.knowledge(attack.shadows, secrets, public)
    return attack.run(counted, secrets, known), counted


def _findings(attack: Attack, evidence: Sequence[Evidence], access: Access) -> list[Measurement]:
    secrets = toys.secrets(attack.kinds)
    return measurements_of(evidence, Case("toy", secrets, toys.COINS, 0.0, 0, access, tests=9))


CHECKS = (
    declares_what_it_needs,
    sees_no_coin_and_no_defense,
    can_be_rehearsed,
    asks_no_more_than_is_left,
    reads_nothing_that_cannot_be_read,
    generates_before_it_reads,
    does_without_a_public_model,
    gives_the_same_evidence_again,
    gives_findings_within_its_tests,
    finds_nothing_stronger_than_the_release,
)
