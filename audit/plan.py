"""A plan is everything that can change a result. What cannot is an Execution, another type."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from audit import plugins, policies, workers
from audit.attack import Attack
from audit.corpus import Corpus
from audit.defense import Defense
from audit.errors import UsageError
from audit.manifest import Manifest
from audit.models.fine_tuning import Recipe
from audit.models.loading import ModelFolder
from audit.policies import Policy
from audit.secrets import Planting

REFERENCES = ("none", "public")


@dataclass(frozen=True)
class Chosen:
    """A plugin by name, with its parameters."""

    name: str
    plugin: Any
    reference: bool = False

    @property
    def parameters(self) -> dict[str, Any]:
        return dataclasses.asdict(self.plugin)

    @property
    def shown(self) -> dict[str, Any]:
        """The parameters as results show them: those that are given here, files and folders by
        their name."""
        return {name: _named(self.parameters[name]) for name in self._given}

    @property
    def _given(self) -> dict[str, Any]:
        """The defaults of the parameters that are given with the name, not by other settings."""
        return {f.name: f.default for f in dataclasses.fields(self.plugin) if f.repr}

    @property
    def label(self) -> str:
        """`submix:k=4`: the name with what differs from the defaults."""
        default, values = self._given, self.parameters
        changed = [f"{k}={_word(_named(values[k]))}" for k in default if values[k] != default[k]]
        return self.name + (":" + ",".join(changed) if changed else "")


@dataclass(frozen=True)
class Plan:
    """What is run. Two equal plans on one machine give the same results.json.

    delta: δ of every empirical ε bound; 1/(10·N) for N private users unless given. Where it is
        given, it is also the δ of every requested defense that has one.
    policy: which characters are private, for defenses and for utility.
    references: whether `none` and `public` run beside what was asked for.
    utility_tokens: held-out tokens that every release's utility is measured on.
    threads: CPU threads of every training and scoring process.
    planting: what is planted; None where it was done elsewhere, as `manifest` says.
    """

    defenses: tuple[Chosen, ...]
    attacks: tuple[Chosen, ...]
    corpus: Corpus
    model: ModelFolder
    seed: int
    delta: float
    policy: Policy
    device: str
    references: bool
    utility_tokens: int
    threads: int
    planting: Planting | None
    training: Recipe
    manifest: Manifest | None = None

    @cached_property
    def document(self) -> dict[str, Any]:
        """The plan as results.json shows it: names and hashes, no path and no time."""
        document: dict[str, Any] = {
            "defenses": [
                {"name": c.name, "parameters": c.shown, "reference": c.reference}
                for c in self.defenses
            ],
            "attacks": [{"name": c.name, "parameters": c.shown} for c in self.attacks],
            "corpus": {"name": self.corpus.name, "sha256": self.corpus.sha256},
            "model": {"name": self.model.name, "sha256": self.model.sha256}
            if self.base_known
            else None,
            "planting": self.planting and dataclasses.asdict(self.planting),
            "training": dataclasses.asdict(self.training),
            "policy": self.policy.label,
            "policy_sha256": self.policy.digest,
        }
        for name in (
            "seed",
            "delta",
            "device",
            "references",
            "utility_tokens",
            "threads",
        ):
            document[name] = getattr(self, name)
        if self.manifest is not None:
            document["manifest"] = self.manifest.digest
        if self.finished:
            document["finished"] = self.finished
            document["trained_on"] = self.trained_on
        return document

    @property
    def finished(self) -> dict[str, str]:
        """Name and hash of the model that others trained; empty where there is none."""
        for plugin in self._finished:
            return {"name": _named(plugin.model), "sha256": plugin.sha256}
        return {}

    @property
    def trained_on(self) -> str | None:
        """Hash of what the finished model was trained on; None where nobody said."""
        return next((plugin.training_sha256 for plugin in self._finished), None)

    @property
    def base_known(self) -> bool:
        """Whether `model` is a public model; else it is the finished one, whose base is unknown."""
        return all(plugin.base is not None for plugin in self._finished)

    @property
    def _finished(self) -> list[Any]:
        """The defenses that take a finished model, one and the same."""
        return [chosen.plugin for chosen in self.defenses if chosen.plugin.finished]

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the document: the plan's identity."""
        text = json.dumps(self.document, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def make_plan(settings: dict[str, Any], corpus: Corpus, model: ModelFolder) -> Plan:
    """Resolves every default. Raises UsageError for whatever cannot be run."""
    planting = _table(Planting, settings.get("planting", {}), _planting_default(corpus))
    users = len(corpus.users("private"))
    references = REFERENCES if settings.get("references", True) else ()
    plan = plan_of(settings, corpus, model, users, references, planting)
    for chosen in plan.defenses:
        if chosen.plugin.finished:
            raise UsageError(
                f"{chosen.name}: audits one finished model, by `audit run --defense {chosen.name} "
                "--model MODEL --secrets MANIFEST`; it has no place in a sweep"
            )
    return plan


def plan_of(
    settings: dict[str, Any],
    corpus: Corpus,
    model: ModelFolder,
    users: int,
    references: Sequence[str],
    planting: Planting | None,
) -> Plan:
    """The plan of these settings, its defaults resolved, without what they say of references and
    planting.

    users: N of the default δ. Raises UsageError.
    """
    epsilon = settings.get("epsilon")
    delta = settings.get("delta")
    if delta is not None and not 0 <= delta < 1:
        raise UsageError(f"delta is {delta}; it must be at least 0 and below 1")
    defenses = _defenses(settings["defense"], epsilon, delta, references)
    attacks = _attacks(settings["attack"])
    for name in ("utility_tokens", "threads"):
        if settings.get(name, 1) < 1:
            raise UsageError(f"{name} is {settings[name]}; it must be at least 1")
    training = _table(Recipe, settings.get("training", {}), recipe_for(model))
    if training.max_length > model.max_length:
        raise UsageError(
            f"training: max_length is {training.max_length}, but the model reads {model.max_length}"
        )
    return Plan(
        defenses=defenses,
        attacks=attacks,
        corpus=corpus,
        model=model,
        seed=settings.get("seed", 0),
        delta=1 / (10 * users) if delta is None else delta,
        policy=policies.named(settings.get("policy", "digits")),
        device=_device(settings.get("device", "auto")),
        references=bool(references),
        utility_tokens=settings.get("utility_tokens", 1024),
        threads=settings.get("threads", 1),
        planting=planting,
        training=training,
    )


def _defenses(
    texts: Sequence[str], epsilon: float | None, delta: float | None, references: Sequence[str]
) -> tuple[Chosen, ...]:
    if not texts:
        raise UsageError("no defense was asked for; add --defense NAME, or --defense all")
    if epsilon is not None and not 0 < epsilon < math.inf:
        raise UsageError(f"epsilon is {epsilon}; it must be above 0 and finite")
    texts = _all(texts, "defenses")
    given = {"epsilon": epsilon, "delta": delta}
    extra = {name: float(value) for name, value in given.items() if value is not None}
    built = [plugins.build("defenses", text, Defense, extra) for text in texts]  # type: ignore[type-abstract]
    if epsilon is not None and not any(hasattr(d, "epsilon") for _, d in built):
        names = ", ".join(name for name, _ in built)
        raise UsageError(f"--epsilon was given, but no requested defense has one ({names})")
    chosen = [Chosen(name, defense) for name, defense in built]
    for name in references:
        if all(c.name != name for c in chosen):
            _, defense = plugins.build("defenses", name, Defense, {})  # type: ignore[type-abstract]
            chosen.append(Chosen(name, defense, reference=True))
    return _once(chosen, "defense")


def _attacks(texts: Sequence[str]) -> tuple[Chosen, ...]:
    if not texts:
        raise UsageError("no attack was asked for; add --attack NAME, or --attack all")
    texts = _all(texts, "attacks")
    built = [plugins.build("attacks", text, Attack, {}) for text in texts]  # type: ignore[type-abstract]
    return _once([Chosen(name, attack) for name, attack in built], "attack")


def _all(texts: Sequence[str], kind: str) -> Sequence[str]:
    """`all` stands for every plugin that is not asked for by name, and trains or attacks."""
    if "all" not in texts:
        return texts
    named = [text for text in texts if text != "all"]
    have = {text.partition(":")[0].strip() for text in named}
    others = [name for name in plugins.names(kind) if name not in have]
    if kind == "defenses":
        others = [n for n in others if not plugins.plugin(kind, n, Defense).finished]  # type: ignore[type-abstract]
    return [*named, *others]


def _once(chosen: Sequence[Chosen], kind: str) -> tuple[Chosen, ...]:
    labels = [c.label for c in chosen]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"{kind} {label} was asked for twice; once is enough")
    return tuple(chosen)


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device is {name!r}; it can be auto, cpu or cuda")
    if name == "cpu":
        return name
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise UsageError("device is cuda, but torch sees no CUDA device here; use --device cpu")
    return "cpu"


def _planting_default(corpus: Corpus) -> Planting:
    """All private users of the embedded corpus, else min(100, a fifth of them), at least two."""
    private = len(corpus.users("private"))
    if private < 2:
        raise UsageError(f"corpus {corpus.name}: {private} private user; coins need at least 2")
    own = max(2, min(100, private // 5))
    return Planting(users=private if corpus.embedded else own)


def recipe_for(model: ModelFolder) -> Recipe:
    """The training recipe: found by experiment for the embedded models, usual values for others."""
    if model.embedded:
        return Recipe(
            epochs=24, learning_rate=1.5e-3, batch_tokens=128, max_length=model.max_length
        )
    if model.kind == "lstm":  # from scratch, which takes longer
        return Recipe(epochs=20, learning_rate=1e-2, batch_tokens=1024, max_length=model.max_length)
    rate = 1e-3 if model.parameters < 10_000_000 else 1e-4
    return Recipe(epochs=3, learning_rate=rate, batch_tokens=2048, max_length=model.max_length)


def _table(cls: type[Any], table: dict[str, Any], default: Any) -> Any:
    """A dataclass from a plan file's table over a default. Raises UsageError for unknown keys."""
    from typing import get_type_hints

    hints = get_type_hints(cls)
    name = cls.__name__.lower().replace("recipe", "training")
    values = {}
    for key, value in table.items():
        if key not in hints:
            from audit.errors import did_you_mean

            raise UsageError(f"{name}: unknown key {key!r}{did_you_mean(key, list(hints))}")
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        values[key] = plugins.convert(text, hints[key], f"{name}: {key}")
    return dataclasses.replace(default, **values)


def _named(value: Any) -> Any:
    """A folder by its name: where things lie on this machine is no part of a result."""
    return Path(value).name if isinstance(value, str) and "/" in value else value


def _word(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Execution:
    """How a plan is run: where to, by whom, in which formats. Cannot change a result.

    workers: a number of processes (0: one a core), "ray" or "ray://HOST:PORT".
    """

    output: Path | None = None
    formats: tuple[str, ...] = ("json", "html", "pdf")
    workers: int | str = 0
    reveal: bool = False


def execution(settings: dict[str, Any]) -> Execution:
    """The settings that cannot change a result. Raises UsageError."""
    formats = tuple(settings.get("format", Execution.formats))
    for name in formats:
        if name != "json":
            plugins.module("reports", name)
    output = settings.get("output")
    return Execution(
        output=None if output is None else Path(output),
        formats=formats,
        workers=workers.parsed(settings.get("workers", 0)),
        reveal=bool(settings.get("reveal", False)),
    )
