"""Plans about models that were trained elsewhere, on a corpus that `audit plant` wrote."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.canaries import manifest as manifests
from audit.canaries.manifest import Manifest
from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.model import ModelFolder
from audit.corpora import loading as corpora
from audit.models import external_model
from audit.models.endpoint.http import address, address_of, is_url
from audit.models.endpoint.session import MARGIN
from audit.models.loading import describe, hash_of
from audit.plan.defaults import plan_of
from audit.plan.plan import REFERENCES, Chosen, Plan
from audit.plugins import registry


def asked(settings: Mapping[str, Any]) -> bool:
    """Whether a finished model is to be audited.

    Raises UsageError where `secrets` says whose, and no defense takes a finished model.
    """
    names = [text.partition(":")[0].strip() for text in settings["defense"] if text != "all"]
    takes = any(registry.plugin("defenses", n, Defense).finished for n in names)  # type: ignore[type-abstract]
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
    base = _one(settings, "base") or external_model.named_base(Path(settings["model"]))
    away = is_url(settings["model"])
    found = (_served if away else _folder)(settings, base, embedded)
    model = found.read_with
    plan = plan_of(
        settings,
        corpus,
        model,
        users=manifest.population.users,
        references=_references(settings, base, corpus),
        planting=None,
    )
    training = _one(settings, "training")
    chosen = tuple(_told(one, base, training, found) for one in plan.defenses)
    _check_trainable(chosen, base, corpus, away)
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
    whole = "\0".join(record.text for record in corpus.records)  # others may have joined records
    planted = [s for s in manifest.secrets if manifest.coins.planted(s)]
    if planted and not any(secret.text in whole for secret in planted):
        raise UsageError(
            f"{settings['corpus']}: holds none of the canaries of {settings['secrets']}; give the "
            "corpus that `audit plant` wrote together with this manifest"
        )
    return dataclasses.replace(corpus, public_size=manifest.population)


@dataclass(frozen=True)
class _Found:
    """The model under audit. address: its folder, or where it is served. read_with: the model whose
    tokenizer reads its texts: its base, or itself."""

    address: str
    sha256: str
    read_with: ModelFolder
    served: str | None = None


def _one(settings: Mapping[str, Any], field: str) -> Any:
    """What the defenses that take a finished model say of it, all of them alike."""
    built: list[Any] = [
        registry.build("defenses", text, Defense, {})[1]  # type: ignore[type-abstract]
        for text in settings["defense"]
        if text != "all"
    ]
    told = {getattr(one, field, None) for one in built if one.finished} - {None}
    if len(told) > 1:
        raise UsageError(f"as_is: one run has one {field}; these are {', '.join(map(str, told))}")
    return next(iter(told), None)


def _folder(settings: Mapping[str, Any], base: str | None, embedded: Path) -> _Found:
    for field in ("tokenizer", "served"):
        if _one(settings, field) is not None:
            raise UsageError(
                f"as_is: {field} is for a model behind a URL; --model is a folder, so leave it out"
            )
    found = external_model.find(settings["model"], base, embedded)
    model = describe(base, embedded) if base else found
    return _Found(settings["model"], found.sha256, model)


def _served(settings: Mapping[str, Any], base: str | None, embedded: Path) -> _Found:
    """A model behind a URL, which is not asked yet: its hash is of its name alone."""
    url, name = address(settings["model"]), _one(settings, "served")
    tokenizer, context = _one(settings, "tokenizer"), _one(settings, "context")
    if context is None:
        raise UsageError(f"{url}: only as_is audits a model behind a URL; give a folder")
    if (base is None) == (tokenizer is None):
        raise UsageError(
            "as_is: a served model is read with the tokenizer of its base (as_is:base=DIR) or, "
            "where that is unknown, one of its own (as_is:tokenizer=DIR); give one of the two"
        )
    if base is not None:
        model = describe(base, embedded)
        reads = min(model.max_length, context) - MARGIN
        model = dataclasses.replace(model, max_length=reads)
    else:
        model = external_model.unseen(tokenizer, context - MARGIN)
    return _Found(address_of(url, name), hash_of([], f"served as {name or ''}"), model, name)


def _references(settings: Mapping[str, Any], base: str | None, corpus: Corpus) -> tuple[str, ...]:
    """`public` needs the base, and `none`, which is trained here, also the corpus."""
    if not base or not settings.get("references", True):
        return ()
    return tuple(name for name in REFERENCES if name == "public" or corpus.of("private"))


def _told(one: Chosen, base: str | None, training: str | None, found: _Found) -> Chosen:
    """A defense that takes a finished model learns which."""
    if not one.plugin.finished:
        return one
    told = {"model": found.address, "base": base, "sha256": found.sha256, "training": training}
    if training is not None:
        told["training_sha256"] = _content(Path(training))
    if found.served:
        told["served"] = found.served
    return dataclasses.replace(one, plugin=dataclasses.replace(one.plugin, **told))


def _content(path: Path) -> str:
    try:
        return hash_of([path])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _check_trainable(
    chosen: Iterable[Chosen], base: str | None, corpus: Corpus, away: bool
) -> None:
    for one in chosen:
        if one.plugin.finished or (one.name == "public" and (base or not away)):
            continue
        if not base or not corpus.of("private"):
            raise UsageError(
                f"{one.name}: can be trained beside a finished model only with its base "
                "(as_is:base=DIR) and the planted corpus (--corpus)"
            )


def differs(manifest: Manifest, corpus: Corpus) -> bool:
    """Whether a corpus is not, text for text, the one that was written."""
    return bool(corpus.records) and manifests.texts_digest(corpus) != manifest.texts
