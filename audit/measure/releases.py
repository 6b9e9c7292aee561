"""Assembles every release of a plan from its trained members."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import safe_open

from audit.core.guarantee import Guarantee
from audit.core.language_model import LanguageModel
from audit.core.lora import Lora
from audit.core.progress import StepProgress
from audit.core.release import ModelRelease, Release
from audit.core.training import Trained
from audit.models import this_process
from audit.models.adapters import fresh, read_weights
from audit.models.causal import CausalLM
from audit.models.endpoint.session import TokenizerOnly
from audit.models.external_model import TOKENIZER_ONLY
from audit.models.loading import load_weights
from audit.plan.plan import Chosen
from audit.prepare.run import Run
from audit.results.schema import SessionResult
from audit.train.publication import Written
from audit.train.task import SHARE, Task, weights_path


@dataclass(frozen=True)
class Audited:
    """A release under audit: who made it, in which role, from which trainings.

    keys: of its trainings and, where noise is never the same, of their weights; of a served model,
        its URL. public: the model it started from.
    shadows: loads the same release on other coins. bare: whether it is without its protection.
    written: the session in which it wrote its texts, where only these are released.
    code: the module of its defense. tasks: the trainings of its models, and of the reader of its
        texts; those that these build on are left out.
    """

    name: str
    label: str
    parameters: dict[str, Any]
    reference: bool
    role: str
    release: Release
    keys: tuple[str, ...]
    train_tokens: int
    public: LanguageModel
    shadows: Callable[[], list[Release]]
    bare: bool = False
    external: bool = False
    written: SessionResult | None = None
    code: tuple[str, ...] = ()
    tasks: tuple[Task, ...] = ()

    @property
    def determined(self) -> tuple[str, dict[str, Any], tuple[str, ...]]:
        """Facts that its answers follow from: name, parameters, trainings.

        Without protection they follow from the trainings alone, so settings that share members
        share the answers.
        """
        return (self.name, {}, self.keys) if self.bare else (self.label, self.parameters, self.keys)


def releases(run: Run, report: StepProgress) -> list[Audited]:
    """Build every release of the plan, each ensemble followed by its unprotected mixture."""
    public = public_model(run)
    audited = []
    for chosen in run.tasks:
        report(f"loading {chosen.label}", 0.0)
        audited += audited_of(run, chosen, public)
    return audited


def audited_of(run: Run, chosen: Chosen, public: LanguageModel) -> list[Audited]:
    """Build the release of one defense; of an ensemble also its unprotected mixture."""
    plan, tasks = run.plan, run.tasks[chosen]
    release = _release(chosen, public, tasks)
    roles = {"none": "positive control", "public": "null control"}
    role = roles.get(chosen.name, f"control of {chosen.name}")
    one = Audited(
        name=chosen.name,
        label=chosen.label,
        parameters={**chosen.shown, **_served(release)},
        reference=chosen.reference,
        role=role if chosen.reference else "audited",
        release=release,
        keys=(
            *(task.weights_key for task in tasks),
            *([release.origin.url] if release.origin else []),
        ),
        train_tokens=run.train_tokens[chosen],
        public=public,
        shadows=partial(_shadows, run, chosen, public),
        external=chosen.plugin.external,
        code=(type(chosen.plugin).__module__,),
        tasks=tasks,
    )
    bare = release.unprotected()
    if bare is None or not plan.references:
        return [_published(run, one)]
    mixture = replace(
        one,
        name=chosen.unprotected,
        label=chosen.unprotected_label,
        reference=True,
        role=f"positive control of {chosen.name}",
        release=bare,
        shadows=partial(_unprotected, one.shadows),
        bare=True,
        code=(),
    )
    return [_published(run, one), _published(run, mixture)]


def _published(run: Run, one: Audited) -> Audited:
    """Replace a release by its texts, once they are written.

    What attacks and utility then ask is a model that a reader trained on the texts.
    """
    made, text = run.published.get(one.label), run.plan.text
    if made is None or text is None:
        return one

    def shadows() -> list[Release]:
        return [_read_by(one, written, one.release.guarantee) for written in made.shadows]

    promise = one.release.guarantee.of_texts(len(made.written.texts), text.tokens)
    return replace(
        one,
        release=_read_by(one, made.written, promise),
        keys=(*one.keys, made.written.reader.key),
        tasks=(*one.tasks, made.written.reader),
        shadows=shadows,
        written=SessionResult.model_validate(made.session),
    )


def _read_by(one: Audited, written: Written, promise: Guarantee) -> Release:
    """Return texts as a release, with the model that their reader trained."""
    reader = _trained(one.public, written.reader)
    return ModelRelease(reader.model, promise, best=reader.best, texts=written.texts)


def texts_of(release: Release) -> tuple[str, ...]:
    """Return the texts that were published in place of a model; () for any other release."""
    return release.texts if isinstance(release, ModelRelease) else ()


def public_model(run: Run) -> LanguageModel:
    """Load the public model; only the tokenizer where the model is unknown."""
    plan = run.plan
    this_process.prepare(plan.threads)
    if plan.model.kind == TOKENIZER_ONLY:
        return TokenizerOnly(run.tokenizer, plan.model.max_length)
    inner = load_weights(plan.model, plan.device)
    return CausalLM(inner, run.tokenizer, plan.model.max_length)


def _served(release: Release) -> dict[str, str]:
    """Return what only the server of a release can report."""
    origin = release.origin
    return {} if origin is None else {"served": origin.served, "served_sha256": origin.sha256}


def _shadows(run: Run, chosen: Chosen, public: LanguageModel) -> list[Release]:
    return [_release(chosen, public, tasks) for tasks in run.shadow_tasks[chosen]]


def _release(chosen: Chosen, public: LanguageModel, tasks: Sequence[Task]) -> Release:
    trained = [_trained(public, task) for task in tasks]
    release: Release = chosen.plugin.release(public, trained)
    return release


def _unprotected(shadows: Callable[[], list[Release]]) -> list[Release]:
    return [bare for shadow in shadows() if (bare := shadow.unprotected()) is not None]


def _trained(public: LanguageModel, task: Task) -> Trained:
    """Load the model of a task; the public model where there was nothing to train on."""
    path = weights_path(task)
    if path is None:
        return Trained(task.training, public)
    lora = task.base.lora
    model = loaded(public, path, task.device, lora)
    if not task.best_path.exists():
        return Trained(task.training, model)
    with safe_open(task.best_path, framework="pt") as file:
        share = float(file.metadata()[SHARE])
    return Trained(task.training, model, (loaded(public, task.best_path, task.device, lora), share))


def loaded(
    public: LanguageModel, path: Path, device: str, lora: Lora | None = None
) -> LanguageModel:
    """Load a trained member: the public model with the weights, or the adapters, of a file."""
    assert isinstance(public, CausalLM)  # a model that is not here is never trained
    inner = fresh(public.inner, lora)
    read_weights(inner, path, device)
    return replace(public, inner=inner)
