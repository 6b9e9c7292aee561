"""A plan is everything that can change a result."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus
from audit.core.digest import digest_of_json
from audit.core.model import ModelFolder
from audit.core.policy import Policy
from audit.core.reach import Reach
from audit.core.training import FineTuning
from audit.plan.source import Source
from audit.plan.text import Text

MOST_LOOKS = 200
LOTS = 10  # in which people are asked about until a leak is decided


def by_name(value: Any) -> Any:
    """Name a folder without its path: where it lies is not a part of a result."""
    return Path(value).name if isinstance(value, str) and "/" in value else value


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
        their name. One that came later is left out at its default."""
        later = {f.name for f in dataclasses.fields(self.plugin) if f.metadata.get("unsaid")}
        values = {name: by_name(self.parameters[name]) for name in self._given}
        return {k: v for k, v in values.items() if k not in later or v != self._given[k]}

    @property
    def _given(self) -> dict[str, Any]:
        """The defaults of the parameters that are given with the name, not by other settings."""
        return {f.name: f.default for f in dataclasses.fields(self.plugin) if f.repr}

    @property
    def label(self) -> str:
        """`submix:k=4`: the name with what differs from the defaults."""
        return self._with_changes(self.name)

    @property
    def unprotected(self) -> str:
        """The name of its unprotected mixture."""
        return f"{self.name}_unprotected"

    @property
    def unprotected_label(self) -> str:
        """`submix_unprotected:k=4`: the label of its unprotected mixture."""
        return self._with_changes(self.unprotected)

    @property
    def argument(self) -> str:
        """The label as a word of a command, with whole paths; a URL may hold a password."""
        shown = self._with_changes(self.name, lambda v: by_name(v) if "://" in str(v) else v)
        return shlex.quote(shown)

    def _with_changes(self, name: str, shown: Callable[[Any], Any] = by_name) -> str:
        default, values = self._given, self.parameters
        changed = [f"{k}={_word(shown(values[k]))}" for k in default if values[k] != default[k]]
        return name + (":" + ",".join(changed) if changed else "")


@dataclass(frozen=True)
class Earlier:
    """An earlier look at the same coins: its run folder, and the SHA-256 of its evidence.json."""

    folder: Path
    sha256: str


@dataclass(frozen=True)
class Plan:
    """Settings of a run. Two equal plans on one machine give the same results.json.

    delta: δ of every empirical ε bound; min(1/(10·N), 1e-5) for N private users unless given.
        Where it is given, it is also the δ of every requested defense that has one.
    policy: which characters are private, for defenses and for utility.
    references: whether `none` and `public` run beside the requested defenses.
    utility_tokens: held-out tokens that every release's utility is measured on.
    threads: CPU threads of every training and scoring process.
    source: where the secrets are planted.
    text: the texts that every release writes, where only these are released.
    reach: the leak that must be found before finding none means something.
    looks: how many audits of the same coins there will be, this one included.
    after: the one before this one, from whose tosses of the coins it goes on.
    lots: in which people are asked about, one after the other, until a leak is decided.
    command: what runs it again; remedy: the same with what may close a leak of a model trained
        elsewhere, "" for others; no parts of its identity.
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
    source: Source
    training: FineTuning
    text: Text | None = None
    reach: Reach = field(default_factory=Reach)
    looks: int = 1
    after: Earlier | None = None
    lots: int = 1
    command: str = field(default="", compare=False)
    remedy: str = field(default="", compare=False)

    @cached_property
    def document(self) -> dict[str, Any]:
        """The plan as results.json shows it: names and hashes, no path and no time."""
        source = dict(self.source.document)
        model = {"name": self.model.name, "sha256": self.model.sha256}
        if self.model.precision:
            model["precision"] = self.model.precision
        return {
            "defenses": [
                {"name": c.name, "parameters": c.shown, "reference": c.reference}
                for c in self.defenses
            ],
            "attacks": [{"name": c.name, "parameters": c.shown} for c in self.attacks],
            "corpus": {"name": self.corpus.name, "sha256": self.corpus.sha256},
            "model": model if self.source.base_known else None,
            "planting": source.pop("planting"),
            "training": self.training.settings,
            "policy": self.policy.label,
            "policy_sha256": self.policy.digest,
            "seed": self.seed,
            "delta": self.delta,
            "device": self.device,
            "references": self.references,
            "utility_tokens": self.utility_tokens,
            "threads": self.threads,
            **({"lora": dataclasses.asdict(self.model.lora)} if self.model.lora else {}),
            **({"text": dataclasses.asdict(self.text)} if self.text else {}),
            **({"silence": self.reach.changed} if self.reach.changed else {}),
            **({"looks": self.looks} if self.looks > 1 else {}),
            **({"after": self.after.sha256} if self.after else {}),
            **({"lots": self.lots} if self.lots > 1 else {}),
            **source,
        }

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the document: the plan's identity."""
        return digest_of_json(self.document)


def _word(value: Any) -> str:
    return "+".join(map(str, value)) if isinstance(value, tuple) else str(value)
