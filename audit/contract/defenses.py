"""The contract of defenses, checked on toy text with the embedded model."""

from __future__ import annotations

import copy
import dataclasses
import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from audit.contract import toys
from audit.contract.imports import nouns, within
from audit.contract.plugin import imports_of
from audit.core.defense import Defense
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.model import ModelFolder
from audit.core.predictor import Access, Answer, Predictor
from audit.core.randomness import stream
from audit.core.release import NoJournal, Release
from audit.core.terms import Relation
from audit.core.training import Trained, Training
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe
from audit.results.schema import GuaranteeResult
from audit.train.models import TrainedModels
from audit.train.task import Task, weights_path
from audit.train.train import train_all

RELATIONS = tuple(Relation)
_HIDDEN = ("attacks", "audit.findings", *nouns("attack", "evidence", "secret"))
_PROMPTS, _LENGTH = 3, 4  # prompts of a session, and tokens after each


def sees_no_attack_and_no_secret(defense: Defense) -> None:
    """Check that neither attacks nor secrets are imported: a defense protects all text."""
    hidden = within(imports_of(defense), *_HIDDEN)
    assert not hidden, f"{type(defense).__name__} imports {hidden[0]}, hidden from defenses"


def has_a_finite_epsilon_by_default(defense: Defense) -> None:
    """Check that the default ε is finite, for runs without `--epsilon`."""
    epsilon = getattr(type(defense)(), "epsilon", 1.0)
    message = f"{type(defense).__name__}: default epsilon is {epsilon}; it must be finite, above 0"
    assert epsilon is not None and 0 < epsilon < math.inf, message


def names_the_same_trainings_again(defense: Defense) -> None:
    """Check that trainings follow from corpus, model, recipe and seed: a killed run resumes."""
    first, second = (_trainings(defense) for _ in range(2))
    name = type(defense).__name__
    labelled = all(isinstance(t, Training) and t.label for t in first)
    assert labelled, f"{name}.trainings() must give Training objects with a label"
    same = [t.digest for t in first] == [t.digest for t in second]
    assert same, f"{name}: the same seed gave other trainings; draw from audit.core.stream"


def trains_on_no_held_out_text(defense: Defense) -> None:
    """Check that no held-out text is trained on: it measures utility and membership."""
    for training in _trainings(defense):
        message = f"{type(defense).__name__}: {training.label!r} is trained on held-out text"
        assert not any(toys.UNSEEN in text for text in training.texts), message


def gives_the_same_release_again(defense: Defense) -> None:
    """Check that two trainings under one seed have the same guarantee and answers."""
    first, second = _release(defense), _trained_release(defense)
    name = type(defense).__name__
    assert first.guarantee == second.guarantee, f"{name}: the same seed gave another guarantee"
    answers = [_plain(_generated(r.open(_draws(), NoJournal()))) for r in (first, second)]
    assert answers[0] == answers[1], f"{name}: the same seed and session gave other answers"


def states_a_whole_guarantee(defense: Defense) -> None:
    """Check that unit, relation, release, basis, δ or order, and theorem of ε are stated."""
    g, name = _release(defense).guarantee, type(defense).__name__
    assert g.unit.strip(), f"{name}: the guarantee names no unit"
    message = f"{name}: the relation is {g.relation!r}; it must be one of {', '.join(RELATIONS)}"
    assert g.relation in RELATIONS, message
    assert g.release in ("model", "predictions"), f"{name}: the release is {g.release!r}"
    assert g.basis in ("worst case", "data-dependent"), f"{name}: the basis is {g.basis!r}"
    assert g.theorem.strip(), f"{name}: the guarantee names no theorem, nor why there is none"
    if not g.promises_nothing:
        message = f"{name}: ε needs either δ or the order α of a Rényi divergence"
        assert (g.delta is None) != (g.alpha is None), message
    GuaranteeResult.of(g).as_json()


def answers_as_it_declares(defense: Defense) -> None:
    """Check that answers are whole lists of tokens, and probabilities if they can be read."""
    predictor, name = _release(defense).open(_draws(), NoJournal()), type(defense).__name__
    assert isinstance(predictor.access, Access), f"{name}: access must be an Access"
    assert predictor.readable >= predictor.access, f"{name}: all that it gives can be read"
    answers = _generated(predictor)
    whole = [len(a.tokens) == len(a.log_probs) == len(a.top1) == _LENGTH for a in answers]
    assert whole == [True] * _PROMPTS, f"{name}: generate must give {_LENGTH} tokens a prompt"
    assert all(0 <= a.answered <= _LENGTH for a in answers), (
        f"{name}: answered must be 0 to {_LENGTH}"
    )
    start, vocabulary = predictor.tokenizer.start, _public()[0].vocabulary
    if predictor.readable >= Access.SCORE:
        (answer,) = predictor.score([[start]], [answers[0].tokens])
        assert (answer.log_probs <= 1e-9).all(), f"{name}: log-probabilities must be nats, ≤ 0"
    if predictor.readable >= Access.DISTRIBUTION:
        log_pmf, _ = predictor.distribution([[start]], range(vocabulary))
        total = float(np.exp(log_pmf).sum())
        assert abs(total - 1) < 1e-3, f"{name}: the next token's distribution sums to {total:.6g}"


def opens_every_session_afresh(defense: Defense) -> None:
    """Check that every session has a full budget, whatever earlier sessions spent."""
    release, name = _release(defense), type(defense).__name__
    first = release.open(_draws(), NoJournal())
    full = first.remaining
    _generated(first)
    if full is not None:
        spent = full - (first.remaining or 0)
        assert spent == min(full, _PROMPTS * _LENGTH), (
            f"{name}: a token is a query; {spent} counted"
        )
    second = release.open(_draws(), NoJournal())
    message = f"{name}: a second session has {second.remaining} queries left, the first had {full}"
    assert second.remaining == full, message


def charges_before_it_answers(defense: Defense) -> None:
    """Check that charges are on disk before an answer, if sampled tokens cost ε."""
    release, name = _release(defense), type(defense).__name__
    if release.guarantee.release != "predictions" or release.guarantee.promises_nothing:
        return
    journal = toys.Memory()
    predictor = release.open(_draws(), journal)
    assert predictor.remaining is not None, f"{name}: a finite ε needs a budget of queries"
    answered = sum(a.answered for a in _generated(predictor))
    charged = sum(not row["stopped"] for row in journal.rows)
    assert charged >= answered, f"{name}: {answered} tokens answered, {charged} charged"
    try:
        _generated(release.open(_draws(), _Full()))
    except OSError:
        return
    raise AssertionError(f"{name}: it answers although its charges could not be written")


def repeats_a_killed_session(defense: Defense) -> None:
    """Check that a session replayed over its own ledger answers the same, charged once."""
    release, name, journal = _release(defense), type(defense).__name__, toys.Memory()
    first = _plain(_generated(release.open(_draws(), journal)))
    charged = len(journal.rows)
    again = _plain(_generated(release.open(_draws(), journal)))
    assert again == first, f"{name}: a replayed session gave other answers"
    assert len(journal.rows) == charged, f"{name}: a replayed session was charged twice"


def has_a_control_that_promises_nothing(defense: Defense) -> None:
    """Check that `unprotected()` is the same models without a guarantee, or None."""
    bare = _release(defense).unprotected()
    fine = bare is None or bare.guarantee.promises_nothing
    assert fine, f"{type(defense).__name__}: unprotected() must promise nothing"


@dataclass(frozen=True)
class _Full:
    """A journal whose disk is full."""

    key: bytes = b""

    def previous(self) -> Sequence[dict[str, Any]]:
        return ()

    def append(self, rows: Sequence[dict[str, Any]]) -> None:
        raise OSError("no space left on device")


def _generated(predictor: Predictor) -> list[Answer]:
    start = predictor.tokenizer.start
    return predictor.generate([[start]] * _PROMPTS, _LENGTH)


def _plain(answers: Sequence[Answer]) -> list[tuple[Any, ...]]:
    return [(a.tokens, a.log_probs.tolist(), a.answered) for a in answers]


def _draws() -> Any:
    return stream(0, "contract", "session")


def _trainings(defense: Defense) -> Sequence[Training]:
    """Return the trainings on the toy corpus, of a few steps."""
    model = _model()
    recipe = Recipe(epochs=1, learning_rate=1e-3, batch_tokens=512, max_length=model.max_length)
    return defense.trainings(toys.corpus(), model, recipe, 0)


def _release(defense: Defense) -> Release:
    """Train the release once for all checks."""
    fields = dataclasses.fields(defense)  # type: ignore[arg-type]
    return _cached_release(type(defense), tuple(getattr(defense, field.name) for field in fields))


@lru_cache(maxsize=1)
def _cached_release(cls: type[Defense], values: tuple[Any, ...]) -> Release:
    return _trained_release(cls(*values))


def _trained_release(defense: Defense) -> Release:
    public, inner = _public()
    trainings = _trainings(defense)
    with tempfile.TemporaryDirectory() as folder:
        tasks = [Task(t, _model(), "cpu", 1, Path(folder)) for t in trainings]
        train_all(tasks, 1, lambda label, share: None)
        read = TrainedModels(inner, tuple(map(weights_path, tasks)))
        models = [replace(public, inner=copy.deepcopy(weights)) for weights in read]
    pairs = zip(trainings, models, strict=True)
    return defense.release(public, [Trained(training, model) for training, model in pairs])


def _model() -> ModelFolder:
    return describe("embedded", EMBEDDED_FOLDER)


@lru_cache(maxsize=1)
def _public() -> tuple[Any, Any]:
    """Load the public model, as a LanguageModel and as a module to train."""
    model = _model()
    inner = load_weights(model, "cpu")
    return CausalLM(inner, load_tokenizer(model), model.max_length), inner


CHECKS = (
    sees_no_attack_and_no_secret,
    has_a_finite_epsilon_by_default,
    names_the_same_trainings_again,
    trains_on_no_held_out_text,
    gives_the_same_release_again,
    states_a_whole_guarantee,
    answers_as_it_declares,
    opens_every_session_afresh,
    charges_before_it_answers,
    repeats_a_killed_session,
    has_a_control_that_promises_nothing,
)
