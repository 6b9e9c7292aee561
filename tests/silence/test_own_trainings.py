"""Silent faults of trainings that this tool runs: each is counted, and its cause is named.

The unharmed trainings of the same tiny corpus show contact, with counts known in closed form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.terms import Leaked, Shown
from audit.core.training import NotFiniteError, Training
from audit.findings.shows import shown
from audit.measure.bench import Bench
from audit.measure.release import measure_release
from audit.measure.releases import releases
from audit.models.loading import describe
from audit.models.training import dp_sgd, fine_tuning, per_example_gradients
from audit.plan.resolve import resolve_on
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.results.silence import REMOVED, Link
from audit.silence.counted import NOTHING, contact, link, people_of, phases_of
from audit.silence.shown import examined, shows
from audit.train.task import Task
from audit.train.train import train_all
from tests.train.conftest import silent

PRIVATE = [Record(f"u{i}", f"Hello, my parcel {i} is late.", split="private") for i in range(10)]
OTHERS = [
    *(Record(f"h{i}", f"Good morning {i}, thank you.", split="heldout") for i in range(3)),
    *(Record(f"p{i}", f"The public park number {i} is open.", split="public") for i in range(4)),
]
CORPUS = Corpus("tiny", (*PRIVATE, *OTHERS))
PLANTING = {"users": 8, "code_copies": 2, "id_copies": [1, 2], "kinds": ["code", "id"]}
# each step draws a person with probability 1/2, by the code's hash; 20 steps hardly miss one
DP = "dp_sgd:epochs=10"
TWICE = "s_dpsgd:epochs=10,schedule=twice"
SHORT, BRIEF = (one.replace("=10", "=2") for one in (DP, TWICE))  # enough for a fault
SEQPATE = "seqpate:teachers=2,sentences=8,epochs=1,queries=4"
MADE = ("none", DP, "submix:k=2", TWICE, "redaction", SEQPATE)


def prepared(stages: Path, *defenses: str, **training: Any) -> Run:
    """Prepare a run of few short texts, with the undefended model among its references."""
    settings = {
        "defense": defenses,
        "attack": ("extraction", "exposure"),
        "seed": 3,
        "device": "cpu",
        "threads": 1,
        "training": {"epochs": 2, "max_length": 64, "batch_tokens": 128, **training},
        "planting": PLANTING,
    }
    return prepare(resolve_on(settings, CORPUS, describe("embedded", EMBEDDED_FOLDER)), stages)


def trained(run: Run) -> Run:
    train_all(run.trainings, 1, silent)
    return run


def links(run: Run) -> dict[str, dict[str, Link]]:
    """Find the contact of every release, by its defense."""
    return {one.name: contact(run, one) for one in releases(run, silent)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The unharmed trainings; a fault that harms one of them leaves the others here."""
    return trained(prepared(tmp_path_factory.mktemp("made"), *MADE))


def test_quiet_trainings_show_contact_with_exact_counts(made: Run) -> None:
    found = links(made)
    heads = sum(made.planted.coins.present.values())
    for name in ("none", "dp_sgd", "submix", "submix_unprotected", "s_dpsgd", "seqpate"):
        for kind in ("code", "id"):
            assert (found[name][kind].state, found[name][kind].n) == (Shown.SHOWN, heads), name
    copies = 2 * heads  # of codes; two passes read each twice
    assert f"{2 * copies} times in all" in found["none"]["code"].by
    assert f"{2 * copies} times in all" in found["submix"]["code"].by
    for kind in ("code", "id"):
        assert found["redaction"][kind].by.startswith(f"{REMOVED}: 0 of {heads} planted {kind}s")
        assert "Nothing was trained" in found["public"][kind].by


def test_null_control_alone_needs_no_contact(made: Run, tmp_path: Path) -> None:
    """Nothing can leak from it; an audited release that learnt nothing has no contact."""
    bench = Bench(made, RunFolder(tmp_path, "hash"))
    public = next(one for one in releases(made, silent) if one.role == "null control")
    for role, state in (("null control", Shown.SHOWN), ("audited", Shown.NOT_SHOWN)):
        found = shows(bench, replace(public, role=role), {}, ()).contact
        assert {(link.state, link.by, link.n) for link in found.values()} == {(state, NOTHING, 0)}


@dataclass(frozen=True)
class Fault:
    """One way to train less than it seems, and what names it.

    defense: what is harmed. whose: the release that is judged. harm: trains a prepared run with
    the fault. words: of the reason. settings: of the training.
    """

    name: str
    defense: str
    whose: str
    harm: Callable[[Run, pytest.MonkeyPatch], Run]
    words: str
    settings: dict[str, Any]


def patched(module: Any, name: str, value: Any) -> Callable[[Run, pytest.MonkeyPatch], Run]:
    """Train with something replaced."""

    def harm(run: Run, patch: pytest.MonkeyPatch) -> Run:
        patch.setattr(module, name, value)
        return trained(run)

    return harm


def changed(**changes: Any) -> Callable[[Run, pytest.MonkeyPatch], Run]:
    """Train the first task with other fields; a callable makes its field from the training."""

    def harm(run: Run, patch: pytest.MonkeyPatch) -> Run:
        def other(task: Task) -> Task:
            one = task.training
            made = {k: v(one) if callable(v) else v for k, v in changes.items()}
            return replace(task, training=replace(one, **made))

        tasks = {c: (other(some[0]), *some[1:]) if some else () for c, some in run.tasks.items()}
        return trained(replace(run, tasks=tasks))

    return harm


def one_late(which: Callable[[Run], Task]) -> Callable[[Run, pytest.MonkeyPatch], Run]:
    """Train all, and then one of the trainings again at a learning rate of 0."""

    def harm(run: Run, patch: pytest.MonkeyPatch) -> Run:
        task = which(trained(run))
        task.path.unlink()
        patch.setattr(fine_tuning, "warmed", still)
        train_all([task], 1, silent)
        return run

    return harm


def still(step: int, steps: int, warmup: float) -> float:
    return 0.0


def every_other(stepped: Callable[..., bool]) -> Callable[..., bool]:
    """Skip every second step, as a scaler of gradients does that met a NaN."""
    made: list[int] = []

    def some(optimizer: torch.optim.Optimizer, learning_rate: float) -> bool:
        made.append(1)
        if len(made) % 2:
            return stepped(optimizer, learning_rate)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(optimizer, "step", lambda: None)
            return stepped(optimizer, learning_rate)

    return some


def to_nan(stepped: Callable[..., bool]) -> Callable[..., bool]:
    """Make a step that is not finite where the learning rate is lowest, which is the last one."""

    def last(optimizer: torch.optim.Optimizer, learning_rate: float) -> bool:
        moved = stepped(optimizer, learning_rate)
        with torch.no_grad():
            optimizer.param_groups[0]["params"][-1].fill_(float("nan"))
        return moved

    return last


@contextmanager
def frozen(model: torch.nn.Module, layers: str) -> Iterator[None]:
    model.requires_grad_(False)
    yield


def climbing(model: torch.nn.Module, recipe: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(per_example_gradients.trainable(model), maximize=True)


def elsewhere(run: Run, patch: pytest.MonkeyPatch) -> Run:
    """Start from other weights than the public ones."""
    from audit.train import train

    fresh = train.fresh

    def moved(*arguments: Any) -> Any:
        model: Any = fresh(*arguments)
        with torch.no_grad():
            next(model.parameters()).mul_(1.001)
        return model

    patch.setattr(train, "fresh", moved)
    return trained(run)


def without_counts(run: Run, patch: pytest.MonkeyPatch) -> Run:
    for task in trained(run).trainings:
        task.counted_path.unlink()
    return run


def before_values(training: Training) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Learn each text up to its first digit, with which planted values begin."""
    return tuple(((0, len(re.split(r"\d", text)[0])),) for text in training.texts)


def unplanted(training: Training) -> tuple[str, ...]:
    return tuple(text for text in training.texts if not is_planted(text))


def is_planted(text: str) -> bool:
    return all(record.text != text for record in PRIVATE)


def unclipped(training: Training) -> Any:
    method = training.method
    if not isinstance(method, dp_sgd.PrivateRecipe):
        return method
    return replace(method, noise=replace(method.noise, max_norm=0.0))


def no_text(training: Training) -> tuple[tuple[tuple[int, int], ...], ...]:
    return tuple(() for _ in training.texts)


def first_piece(sequence: Any, max_length: int) -> list[Any]:
    return [sequence[:4]]


def holding(run: Run) -> Task:
    """Return a member of the ensemble whose texts hold a planted value."""
    return next(t for t in run.trainings if any(map(is_planted, t.training.texts)))


def teacher(run: Run) -> Task:
    student = next(task for task in run.trainings if task.teachers)
    return next(t for t in student.teachers if any(map(is_planted, t.training.texts)))


STEPPED, LEFT, MISSED = fine_tuning.stepped, "left every weight as it was", "contributed to a step"
FAULTS = (
    Fault("rate 0", "none", "none", patched(fine_tuning, "warmed", still), LEFT, {}),
    Fault("rate 0 in phase 1", BRIEF, "s_dpsgd", patched(fine_tuning, "warmed", still), LEFT, {}),
    Fault("rate 0 in phase 2", BRIEF, "s_dpsgd", patched(dp_sgd, "warmed", still), LEFT, {}),
    Fault("no step", "none", "none", lambda run, _: trained(run), LEFT, {"epochs": 0}),
    Fault(
        "steps skipped",
        "none",
        "none",
        patched(fine_tuning, "stepped", every_other(STEPPED)),
        MISSED,
        {"epochs": 1, "batch_tokens": 16},
    ),
    Fault(
        "weights NaN",
        "none",
        "none",
        patched(fine_tuning, "stepped", to_nan(STEPPED)),
        "not finite",
        {"batch_tokens": 10_000, "epochs": 1},
    ),
    Fault("clip 0", SHORT, "dp_sgd", changed(method=unclipped), LEFT, {}),
    Fault(
        "clipped to 0",
        SHORT,
        "dp_sgd",
        patched(per_example_gradients, "clip_factors", lambda norms, most: torch.zeros_like(norms)),
        MISSED,
        {},
    ),
    Fault("member untrained", "submix:k=2", "submix", one_late(holding), "part", {}),
    Fault("teacher untrained", SEQPATE, "seqpate", one_late(teacher), "teacher", {}),
    Fault("value masked", "none", "none", changed(learned=before_values), MISSED, {}),
    Fault("all masked", "none", "none", changed(learned=no_text), LEFT, {}),
    Fault("cut", "none", "none", patched(fine_tuning, "cut", first_piece), MISSED, {}),
    Fault("copies dropped", "none", "none", changed(texts=unplanted), REMOVED, {}),
    Fault("control climbs", SHORT, "dp_sgd", patched(fine_tuning, "adamw", climbing), "learn", {}),
    Fault("control still", SHORT, "dp_sgd", patched(fine_tuning, "warmed", still), "none: the", {}),
    Fault("other start", "none", "none", elsewhere, "other weights", {}),
    Fault("no counts", "none", "none", without_counts, "not stored", {}),
)


QUICK = ("no step", "value masked", "weights NaN", "clipped to 0", "control still", "no counts")


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.name, marks=() if fault.name in QUICK else pytest.mark.slow)
        for fault in FAULTS
    ],
)
def test_training_fault_is_named_and_not_shown(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fault.harm(prepared(tmp_path, fault.defense, **fault.settings), monkeypatch)
    monkeypatch.undo()
    for kind, found in links(run)[fault.whose].items():
        assert found.state == Shown.NOT_SHOWN, kind
        assert fault.words in found.by


@pytest.mark.slow
def test_session_spent_before_the_coins_measures_nothing(tmp_path: Path) -> None:
    """One query was allowed, and no try needs so few; every measure is supposed to see."""
    run = trained(prepared(tmp_path, "submix:k=2,budget=1"))
    bench = Bench(run, RunFolder(tmp_path, "hash"))
    (tmp_path / "stages").mkdir()
    one = next(r for r in releases(run, silent) if r.role == "audited")
    measured = examined(bench, one, measure_release(bench, one))
    sight = {(m.attack, m.metric): shown("supposed", 1) for m in measured.measurements}
    found = replace(measured, shows=measured.shows.beside(sight)).result(None).findings
    assert {finding.leaked for finding in found} == {Leaked.NOT_MEASURED}
    hits = next(finding for finding in found if finding.metric == "hit_rate")
    assert (hits.value, hits.n) == (None, 0)


@pytest.mark.parametrize(("longest", "whole"), [(64, True), (9, False)])
def test_prompts_count_what_stands_in_them(longest: int, whole: bool, tmp_path: Path) -> None:
    """Nothing is trained; a reference that is cut before the values holds none of them."""
    run = prepared(tmp_path, f"invisible_ink_prompts:references=2,longest={longest}")
    tasks = next(some for chosen, some in run.tasks.items() if chosen.name != "none" and some)
    phases = phases_of(run, tasks)
    for kind, people in people_of(run).items():
        found = link(kind, people, phases)
        assert (found.state == Shown.SHOWN) == whole, found.by
        assert whole or "stand whole in a prompt" in found.by


@pytest.mark.parametrize(
    ("module", "name", "value", "error"),
    [
        (fine_tuning, "limited", frozen, ValueError),
        (fine_tuning, "next_token_loss", lambda *_: torch.tensor(float("nan")), NotFiniteError),
    ],
)
def test_training_that_cannot_step_is_refused(
    module: Any, name: str, value: Any, error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, name, value)
    with pytest.raises(error):
        trained(prepared(tmp_path, "none"))
    assert not list(tmp_path.glob("trained-*.safetensors"))
