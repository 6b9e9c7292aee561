"""Plans about models that were trained elsewhere, on a corpus that `audit plant` wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from audit import corpus as corpora
from audit import manifest as manifests
from audit import plugins
from audit.corpus import Corpus
from audit.defense import Defense
from audit.errors import UsageError
from audit.manifest import Manifest
from audit.models import finished
from audit.models.loading import ModelFolder, describe
from audit.plan import REFERENCES, Chosen, Plan, plan_of


def asked(settings: Mapping[str, Any]) -> bool:
    """Whether a finished model is to be audited.

    Raises UsageError where `secrets` says whose, and no defense takes a finished model.
    """
    names = [text.partition(":")[0].strip() for text in settings["defense"] if text != "all"]
    takes = any(plugins.plugin("defenses", n, Defense).finished for n in names)  # type: ignore[type-abstract]
    if "secrets" in settings and not takes:
        raise UsageError(
            f"--secrets {settings['secrets']}: is for a model trained elsewhere; use --defense "
            "as_is"
        )
    return takes


def make_plan(settings: dict[str, Any], embedded: Path) -> Plan:
    """Resolves every default. Raises UsageError for whatever cannot be audited."""
    if "secrets" not in settings:
        raise UsageError(
            "as_is: a finished model is audited against what was planted into its data; give "
            "--secrets MANIFEST.json, which `audit plant` writes"
        )
    if "model" not in settings:
        raise UsageError("as_is: give the finished model with --model DIR")
    manifest = manifests.read(Path(settings["secrets"]))
    corpus = _corpus(settings, manifest, embedded)
    base = _base(settings)
    found = finished.find(settings["model"], base, embedded)
    model = describe(base, embedded) if base else found
    plan = plan_of(
        settings,
        corpus,
        model,
        users=manifest.population.users,
        references=_references(settings, base, corpus),
        planting=None,
    )
    chosen = tuple(_told(one, settings["model"], base, found) for one in plan.defenses)
    _check_trainable(chosen, base, corpus)
    for attack in plan.attacks:
        if attack.plugin.shadows:
            raise UsageError(
                f"{attack.label}: shadow models would have to be trained elsewhere too; give "
                "shadows=0"
            )
    return dataclasses.replace(plan, defenses=chosen, manifest=manifest)


def _corpus(settings: Mapping[str, Any], manifest: Manifest, embedded: Path) -> Corpus:
    """The planted corpus; without one, an empty one that bears its name."""
    if "corpus" not in settings:
        return Corpus(manifest.name, (), public_size=manifest.population)
    corpus = corpora.load_planted(settings["corpus"], embedded)
    texts = {record.text for record in corpus.records}
    planted = [s for s in manifest.secrets if manifest.coins.planted(s)]
    if planted and not any(s.text in texts for s in planted) and not _within(planted, texts):
        raise UsageError(
            f"{settings['corpus']}: holds none of the canaries of {settings['secrets']}; give the "
            "corpus that `audit plant` wrote together with this manifest"
        )
    return dataclasses.replace(corpus, public_size=manifest.population)


def _within(planted: Iterable[Any], texts: Iterable[str]) -> bool:
    """Whether any canary stands inside a text: others may have joined or cut the records."""
    whole = "\0".join(texts)
    return any(secret.text in whole for secret in planted)


def _base(settings: Mapping[str, Any]) -> str | None:
    """The base that is named, by the user or else by the adapter."""
    built: list[Any] = [
        plugins.build("defenses", text, Defense, {})[1]  # type: ignore[type-abstract]
        for text in settings["defense"]
        if text != "all"
    ]
    bases = {one.base for one in built if one.finished and one.base is not None}
    if len(bases) > 1:
        raise UsageError(f"as_is: one run has one base; these are {', '.join(sorted(bases))}")
    return next(iter(bases), None) or finished.named_base(Path(settings["model"]))


def _references(settings: Mapping[str, Any], base: str | None, corpus: Corpus) -> tuple[str, ...]:
    """`public` needs the base, and `none`, which is trained here, also the corpus."""
    if not base or not settings.get("references", True):
        return ()
    return tuple(name for name in REFERENCES if name == "public" or corpus.of("private"))


def _told(one: Chosen, model: str, base: str | None, found: ModelFolder) -> Chosen:
    """A defense that takes a finished model learns which."""
    if not one.plugin.finished:
        return one
    told = dataclasses.replace(one.plugin, model=model, base=base, sha256=found.sha256)
    return dataclasses.replace(one, plugin=told)


def _check_trainable(chosen: Iterable[Chosen], base: str | None, corpus: Corpus) -> None:
    for one in chosen:
        if one.plugin.finished or one.name == "public":
            continue
        if not base or not corpus.of("private"):
            raise UsageError(
                f"{one.name}: can be trained beside a finished model only with its base "
                "(as_is:base=DIR) and the planted corpus (--corpus)"
            )


def differs(manifest: Manifest, corpus: Corpus) -> bool:
    """Whether a corpus is not, text for text, the one that was written."""
    return bool(corpus.records) and manifests.texts_digest(corpus) != manifest.texts
