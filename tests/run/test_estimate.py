"""What a run is expected to take, and how its progress is numbered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from audit.core.errors import UsageError
from audit.core.predictor import Access
from audit.core.progress import WHOLE, Remark
from audit.measure import asking
from audit.measure.asking import Asking, askings
from audit.measure.rehearsal import Asked
from audit.models.causal import CausalLM
from audit.models.ensembles.adapters_of_one_base import Together
from audit.models.ensembles.batching import Stacked, batched
from audit.models.loading import load_weights
from audit.models.sizes import width_of
from audit.plan.execution import execution
from audit.plan.resolve import resolve
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.results.words import duration, percent, storage
from audit.run import dry_run, pipeline, steps
from audit.run import estimate as module
from audit.run.estimate import NO_CONTROL, Estimate, announced, estimate, largest_user, weak_control
from audit.run.steps import Steps
from audit.train import first_steps
from audit.train.first_steps import Cost

ONE = Estimate(
    {"a": 30.0, "b": 10.0}, {"attacking a": 5.0}, 2, 2, to_train=2e9, to_attack=1e9, disk=3e6
)


def prepared(tmp_path: Path, **settings: Any) -> Run:
    given = {"defense": ("submix:k=2",), "attack": ("extraction",), **settings}
    return prepare(resolve(given), tmp_path)


def test_tasks_share_the_processes_and_none_is_divided() -> None:
    fixed = module.START + module.REPORTS
    assert ONE.seconds == fixed + 30.0 + 5.0  # the longest training is longer than half of both
    assert replace(ONE, processes=1).seconds == fixed + 40.0 + 5.0
    even = replace(ONE, trainings={"a": 20.0, "b": 20.0})
    assert even.seconds == fixed + 20.0 + 5.0
    assert even.steps == {"a": 10.0, "b": 10.0, "attacking a": 5.0}
    more = replace(ONE, attacks={"attacking a": 5.0, "attacking b": 5.0})
    assert (more.seconds, replace(more, attackers=1).seconds) == (fixed + 35.0, fixed + 40.0)


def test_the_sentence_names_time_memory_disk_and_the_longest_step() -> None:
    assert ONE.sentence == (
        "about 45 s on 2 processes, 64 % of it for a; 2.0 GB of memory, 3 MB in stages/"
    )
    assert "; 4.0 GB of memory" in replace(ONE, to_attack=4e9).sentence
    many = replace(ONE, trainings={str(i): 1.0 for i in range(16)})
    assert " of it for " not in replace(many, attacks={}).sentence


@pytest.mark.slow
def test_the_steps_are_those_that_a_run_reports(tmp_path: Path) -> None:
    """Each attacked release, the unprotected mixture included, as the pipeline names it."""
    made = estimate(prepared(tmp_path), 2)
    assert made is not None
    assert list(made.attacks) == [
        "attacking submix:k=2", "attacking submix_unprotected:k=2", "attacking none",
        "attacking public",
    ]  # fmt: skip


@pytest.mark.slow
def test_what_is_trained_already_costs_nothing(tmp_path: Path) -> None:
    plan = prepared(tmp_path)
    before = estimate(plan, 1)
    for task in plan.tasks[plan.plan.defenses[0]]:
        task.path.touch()
    after = estimate(plan, 1)
    assert before is not None and after is not None
    assert list(after.trainings) == ["none"] and after.disk < before.disk


def test_an_estimate_is_of_this_machine_only(tmp_path: Path) -> None:
    assert estimate(prepared(tmp_path), "ray") is None


def of_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: float, **more: Any) -> Any:
    """What is expected on 4 cores with this memory, where each training takes 3 GB, others 1."""
    monkeypatch.setattr(module, "cores", lambda: 4)
    monkeypatch.setattr(module, "memory_here", lambda: memory)
    monkeypatch.setattr(module, "resident", lambda: 1e9)
    monkeypatch.setattr(module, "cost_of", lambda *_: Cost(1e-3, 3e9))
    return estimate(prepared(tmp_path, **more), 0)


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize(
    ("gigabytes", "threads", "processes"), [(99, 1, 4), (15, 1, 3), (5, 1, 1), (99, 2, 2)]
)
def test_memory_and_cores_decide_the_processes(
    gigabytes: float,
    threads: int,
    processes: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1 GB here, and for each process 1 GB and the 3 GB of its training."""
    found = of_needs(tmp_path, monkeypatch, gigabytes * 1e9, threads=threads)
    assert (found.processes, found.fitting) == (processes, 4 // threads)
    said = "" if processes == 4 else f"workers: {processes} process"
    assert found.decided.startswith(said) and bool(found.decided) == bool(said)
    module.check_fits(found, 0)


def test_more_than_the_machine_has_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = of_needs(tmp_path, monkeypatch, 3e9)
    with pytest.raises(
        UsageError, match=r"needs about 4\.\d GB of memory, and this .* has 3\.0 GB"
    ):
        module.check_fits(found, 0)
    module.check_fits(found, 1)  # whoever states a number has decided
    plan = resolve({"defense": ("submix:k=2",), "attack": ("extraction",)})
    folder = RunFolder(tmp_path / "out", plan.hash)
    for act in (
        lambda: pipeline.run(plan, execution({"format": ()}), folder, lambda *_: None),
        lambda: dry_run.describe(plan, folder),
    ):
        with pytest.raises(UsageError, match="of memory"):
            act()
    assert not list(folder.path.glob("stages/trained-*"))


class BegunError(Exception):
    """The run went on to its first step."""


def test_a_run_says_at_its_start_what_its_dry_run_said(tmp_path: Path) -> None:
    plan = resolve({"defense": ("none",), "attack": ("extraction",), "training": {"epochs": 1}})
    folder, said = RunFolder(tmp_path / "out", plan.hash), []

    def report(label: str, share: float) -> None:
        if not isinstance(label, Remark):
            raise BegunError
        said.append(label)

    with pytest.raises(BegunError):
        pipeline.run(plan, execution({"format": (), "workers": 1}), folder, report)
    assert [line.partition(":")[0] for line in said] == ["expected", "largest user", "note"]
    shown = dry_run.describe(plan, folder, 1).split("\n")
    assert set(said[1:]) < set(shown)  # the time is measured again


def test_a_dry_run_expects_as_many_processes_as_are_given(tmp_path: Path) -> None:
    plan = resolve({"defense": ("submix:k=2",), "attack": ("extraction",)})
    folder = RunFolder(tmp_path / "out", plan.hash)
    for workers, words in ((1, "on 1 process,"), (3, "on 3 processes,")):
        assert words in dry_run.describe(plan, folder, workers)
    assert "expected:" not in dry_run.describe(plan, folder, "ray")


def test_the_largest_user_is_counted_in_tokens(tmp_path: Path) -> None:
    plan = prepared(tmp_path)
    largest, every = largest_user(plan)
    users = {r.user for r in plan.corpus.of("private")}
    assert every / len(users) < largest < every


@pytest.mark.parametrize(("epochs", "weak"), [(6, True), (8, False), (24, False)])
def test_a_control_that_reads_its_codes_too_seldom_is_called_weak(
    epochs: int, weak: bool, tmp_path: Path
) -> None:
    said = weak_control(prepared(tmp_path, training={"epochs": epochs}))
    assert bool(said) == weak
    if weak:
        assert f"{4 * epochs} times" in said


def test_without_references_or_codes_nothing_is_called_weak(tmp_path: Path) -> None:
    few = {"training": {"epochs": 1}}
    assert not weak_control(prepared(tmp_path, references=False, **few))
    assert not weak_control(prepared(tmp_path, attack=("exposure",), **few))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "5 s"), (47, "45 s"), (100, "2 min"), (5000, "83 min"), (9000, "2.5 h")],
)
def test_a_time_is_rounded_to_what_is_known(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def test_sizes_are_written_in_the_unit_that_fits() -> None:
    assert (storage(38e6), storage(2.5e9)) == ("38 MB", "2.5 GB")


def test_a_stand_in_has_the_width_of_the_model(tmp_path: Path) -> None:
    small = prepared(tmp_path).plan.model
    assert width_of(small) == 128  # n_embd
    gpt2 = replace(small, parameters=124_439_808, blocks=12, vocabulary=50_257)
    assert width_of(gpt2) == 768


@pytest.fixture
def alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of any training takes 0.1 ms and 1 MB, a generated one as long; 1 GB is held now."""
    monkeypatch.setattr(module, "resident", lambda: 1e9)
    monkeypatch.setattr(module, "cost_of", lambda task, tokenizer: Cost(1e-4, 1e6))
    one = Asking(Access.DISTRIBUTION, None, 1e-4, 0.0, 0.0, 1e6)
    monkeypatch.setattr(
        module, "askings", lambda run: {c: [one] * (1 + len(t) // 2) for c, t in run.tasks.items()}
    )


@pytest.mark.usefixtures("alike")
def test_twice_the_epochs_take_twice_the_training(tmp_path: Path) -> None:
    one = estimate(prepared(tmp_path, training={"epochs": 3}), 1)
    two = estimate(prepared(tmp_path, training={"epochs": 6}), 1)
    assert one is not None and two is not None
    assert sum(two.trainings.values()) == pytest.approx(2 * sum(one.trainings.values()))
    assert two.attacks == one.attacks
    assert set(one.trainings) > {"none"} and len(one.trainings) == 5  # two parts of two halves


@pytest.mark.usefixtures("alike")
def test_every_setting_of_a_sweep_is_expected_to_take_its_time(tmp_path: Path) -> None:
    """Also where they train under one label; one that both train counts once."""
    one, two, shared = (
        estimate(prepared(tmp_path, defense=defenses), 1)
        for defenses in (("dp_sgd",), ("dp_sgd", "dp_sgd:epsilon=1"), ("blacklist",))
    )
    assert one is not None and two is not None and shared is not None
    assert list(two.trainings) == ["dp_sgd", "dp_sgd (2)", "none"]
    assert two.trainings["dp_sgd (2)"] == pytest.approx(one.trainings["dp_sgd"])
    assert len(shared.trainings) == 1
    assert f"{percent(round(share(two, 'dp_sgd'), 2))} of it for dp_sgd;" in two.sentence


@pytest.mark.usefixtures("alike")
def test_as_many_processes_as_train_at_once_are_in_memory(tmp_path: Path) -> None:
    """One alone is trained in this process, two have one each, and no third is started."""
    alone = prepared(tmp_path, defense=("dp_sgd",), references=False)
    beside = prepared(tmp_path, defense=("dp_sgd", "none"), references=False)
    own = 4.0 * alone.plan.model.parameters
    one, two, three = (estimate(run, n) for run, n in ((alone, 2), (beside, 2), (beside, 3)))
    assert one is not None and two is not None and three is not None
    assert one.to_train == pytest.approx(module.resident() + 2 * own + 2 * own + 1e6, rel=0.02)
    more = two.to_train - one.to_train
    assert more == pytest.approx(2 * module.resident() + own + 2 * own + 1e6, rel=0.02)
    assert three.to_train == pytest.approx(two.to_train, rel=0.02)


@pytest.mark.usefixtures("alike")
@pytest.mark.parametrize("launcher", [False, True])
def test_processes_of_one_training_share_its_time(
    launcher: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds the public model and its own; there are two cores for the three of them."""
    monkeypatch.setattr(module, "cores", lambda: 2)
    run = prepared(tmp_path, defense=("dp_sgd", "none"), references=False)
    own = 4.0 * run.plan.model.parameters
    if launcher:
        names = ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        for name, value in zip(names, ("0", "6", "3", "there", "1"), strict=True):
            monkeypatch.setenv(name, value)
    given = execution({} if launcher else {"processes": 3})
    alone, several = estimate(run, 1), estimate(run, given.workers, given.processes)
    assert alone is not None and several is not None and several.processes == 1
    assert several.divided == {"dp_sgd": pytest.approx(alone.trainings["dp_sgd"] / 2)}
    assert several.trainings == {"none": alone.trainings["none"]}
    more = several.to_train - alone.to_train
    assert more == pytest.approx(2 * (module.resident() + 2 * own + 1e6), rel=0.02)
    assert several.decided.startswith("processes: 3 of 1 thread train each model")
    if not launcher:  # workers share what is not divided, and wait for what is
        wide = estimate(run, 2, 3)
        assert wide is not None and wide.steps["dp_sgd"] == several.steps["dp_sgd"]


@pytest.mark.usefixtures("alike")
def test_processes_without_divided_training_cost_nothing(tmp_path: Path) -> None:
    run = prepared(tmp_path, defense=("none",), references=False)
    assert estimate(run, 1, 3) == estimate(run, 1)


def cost(run: Run) -> Cost:
    return first_steps.cost_of(run.wanted[0], run.tokenizer)


@pytest.mark.slow
def test_first_steps_tell_what_a_training_takes(tmp_path: Path) -> None:
    """What has adapters keeps no moments of its base; times differ on a busy machine."""
    plain, private, low = (
        cost(prepared(tmp_path, defense=(d,), lora=lora, references=False))
        for d, lora in (("none", None), ("dp_sgd", None), ("none", "r=2"))
    )
    moments = 8.0 * 560_640
    assert min(plain.seconds, private.seconds, low.seconds) > 0
    assert plain.memory > moments + low.memory / 4 and private.memory > moments


def test_trainings_that_differ_in_texts_alone_are_measured_once(tmp_path: Path) -> None:
    run = prepared(tmp_path, defense=("submix:k=2",))
    before = first_steps._cost.cache_info()
    costs = {first_steps.cost_of(task, run.tokenizer) for task in run.wanted}
    after = first_steps._cost.cache_info()
    assert len(costs) == 1 and len(run.wanted) == 5
    assert after.hits - before.hits >= 4


def test_steps_after_the_first_are_timed() -> None:
    """A tenth of the training a second, once it has begun."""
    assert first_steps._whole([(0.0, 0.0), (7.0, 0.1), (8.0, 0.2), (9.0, 0.3)]) == pytest.approx(10)
    assert first_steps._whole([(0.0, 0.0), (7.0, 0.5)]) == pytest.approx(14)
    assert first_steps._whole([(0.0, 0.0)]) == 0.0


@pytest.mark.slow
def test_releases_are_asked_within_their_budgets(tmp_path: Path) -> None:
    run = prepared(tmp_path, defense=("submix:k=2", "dp_sgd"))
    (service, mixture), *whole = askings(run).values()
    assert len(whole) == 3 and all(one == whole[0] for one in whole[:2])  # trained as a whole
    assert service.remaining == 1024 and mixture.remaining is None
    assert mixture.readable == Access.SCORE and mixture.read == 0.0
    assert min(service.generated, service.scored, service.read, mixture.scored) > 0
    asked = Asked(generated=1, scored=2, read=3)
    by_hand = Asking(Access.SCORE, None, 1.0, 10.0, 100.0, 0.0)
    assert by_hand.seconds(asked) == 321.0


@pytest.mark.parametrize("lora", [None, "r=2"])
def test_members_that_are_measured_are_not_computed_as_one(
    tmp_path: Path, lora: str | None
) -> None:
    run = prepared(tmp_path, defense=("submix:k=2",), **({"lora": lora} if lora else {}))
    inner = load_weights(run.plan.model, "cpu")
    public = CausalLM(inner, run.tokenizer, run.plan.model.max_length)
    members = asking._members(run, public)
    together = batched(members)
    assert len(members) == 4 and isinstance(together, Stacked)
    assert together.places == (0, 1, 2, 3) and isinstance(together.inner.inner, Together) == bool(
        lora
    )


# steps


def reported(
    *calls: tuple[str, float], expected: dict[str, float], before: int = 0
) -> list[tuple[str, float]]:
    seen: list[tuple[str, float]] = []
    steps = Steps(lambda label, share: seen.append((label, share)), expected, before=before)
    for label, share in calls:
        steps(label, share)
    return seen


def test_steps_are_numbered_in_the_order_they_begin() -> None:
    seen = reported(("b", 0.5), ("a", 0.1), ("b", 1.0), expected={"a": 1.0, "b": 1.0})
    labels = [label for label, _ in seen if label != WHOLE]
    assert labels == ["1 of 2: b", "2 of 2: a", "1 of 2: b"]
    resumed = reported(("b", 0.5), ("a", 1.0), expected={"a": 1.0, "b": 1.0}, before=7)
    assert [label for label, _ in resumed if label != WHOLE] == ["8 of 9: b", "9 of 9: a"]


def test_steps_of_one_label_follow_each_other() -> None:
    """Two settings of a defense train at once, under its name; a label without more stays."""
    calls = [("a", 0.5), ("a", 0.1), ("a", 1.0), ("a", 0.6), ("a", 1.0), ("a", 1.0), ("b", 1.0)]
    seen = reported(*calls, expected={"a": 4.0, "a (2)": 4.0, "b": 2.0})
    labels = [label for label, _ in seen if label != WHOLE]
    assert labels == ["1 of 3: a"] * 3 + ["2 of 3: a (2)"] * 3 + ["3 of 3: b"]
    assert [share for label, share in seen if label == WHOLE] == pytest.approx(
        [0.2, 0.2, 0.4, 0.64, 0.8, 0.8, 1.0]
    )


def share(of: Estimate, label: str) -> float:
    times = of.steps
    return sum(t for name, t in times.items() if name.startswith(label)) / sum(times.values())


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(steps.time, "monotonic", lambda: now[0])
    return now


def test_steps_that_say_nothing_are_done_by_the_clock(clock: list[float]) -> None:
    """Two attacks go on side by side and take 20 s each, 10 s of the whole."""
    seen: list[float] = []
    report = Steps(
        lambda label, share: seen.append(share) if label == WHOLE else None,
        {"attacking a": 10.0, "attacking b": 10.0},
        together=2,
    )
    for clock[0], label, share in [
        (0.0, "attacking a", 0.0),
        (0.0, "attacking b", 0.0),
        (10.0, "attacking b", 0.0),
        (90.0, "attacking b", 1.0),
        (99.0, "attacking a", 1.0),
    ]:
        report(label, share)
    assert seen == pytest.approx([0.0, 0.0, 0.5, 0.95, 1.0])


def test_the_whole_is_weighed_by_time_and_reaches_its_end(clock: list[float]) -> None:
    calls = [("a", 0.5), ("a", 1.0), ("attacking", 0.0), ("attacking", 1.0), ("c", 1.0)]
    seen = reported(*calls, expected={"a": 6.0, "attacking": 3.0, "c": 1.0})
    assert [share for label, share in seen if label == WHOLE] == pytest.approx(
        [0.3, 0.6, 0.6, 0.9, 1.0]
    )


def test_what_is_no_step_passes_unnumbered() -> None:
    assert reported(("writing html", 0.0), expected={"a": 1.0}) == [("writing html", 0.0)]


def test_missing_positive_control_is_announced(tmp_path: Path) -> None:
    for references in (True, False):
        run = prepared(tmp_path, references=references)
        assert any(NO_CONTROL in line for line in announced(run, None)) is not references
