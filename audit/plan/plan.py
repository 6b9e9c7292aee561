"""A plan is everything that can change a result."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.canaries.manifest import Manifest
from audit.core.corpus import Corpus
from audit.core.model import ModelFolder
from audit.core.policy import Policy
from audit.core.secret import Planting
from audit.core.training import FineTuning

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
    training: FineTuning
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


def _named(value: Any) -> Any:
    """A folder by its name: where things lie on this machine is no part of a result."""
    return Path(value).name if isinstance(value, str) and "/" in value else value


def _word(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
