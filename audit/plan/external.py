"""Loads the material for auditing an external model, one that was trained elsewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from audit.core.corpus import Corpus
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.layers import ALL
from audit.core.model import ModelFolder
from audit.corpora import loading as corpora
from audit.corpora.reading import Reading
from audit.models import external_model, external_texts, new_rows
from audit.models.endpoint.http import address, address_of, is_url
from audit.models.endpoint.session import MARGIN
from audit.models.loading import EMBEDDED, describe, hash_of, load_tokenizer
from audit.plan import choices
from audit.plan.material import REFERENCES, Material
from audit.plan.plan import Chosen, by_name
from audit.plan.source import External, PlantedElsewhere, Served
from audit.plan.text import AS_DEFENDED, TEXT, Text, parsed
from audit.planting import manifest as manifests
from audit.planting import new_tokens, own
from audit.planting.manifest import Manifest
from audit.plugins import registry


def is_wanted(settings: Mapping[str, Any]) -> bool:
    """Return whether an external model is to be audited.

    Raises UsageError where `secrets` is given and no defense audits an external model.
    """
    names = [text.partition(":")[0].strip() for text in settings["defense"] if text != "all"]
    wanted = any(registry.plugin("defenses", n, Defense).external for n in names)  # type: ignore[type-abstract]
    if "secrets" in settings and not wanted:
        raise UsageError(
            f"--secrets {settings['secrets']}: is for a model trained elsewhere; use --defense "
            "as_is"
        )
    return wanted


def material(settings: Mapping[str, Any], embedded: Path) -> Material:
    """Read manifest, corpus and model. Raises UsageError for what cannot be audited."""
    if "secrets" not in settings:
        raise UsageError(
            "as_is: an external model is audited against what was planted into its data; give "
            "--secrets MANIFEST.json, which `audit plant` writes"
        )
    if "coin_users" in settings:
        raise UsageError(
            "--coin-users: the users of a model that is trained already have their coins from "
            "`audit plant --coin-users`; leave it out"
        )
    if "model" not in settings:
        raise UsageError("as_is: give the external model with --model DIR")
    manifest = manifests.read(Path(settings["secrets"]))
    _check_size(settings, manifest)
    corpus = _corpus(settings, manifest, embedded)
    is_remote, is_text = is_url(settings["model"]), external_texts.is_texts(settings["model"])
    base = _one(settings, "base") or external_model.named_base(Path(settings["model"]))
    if is_text:  # whoever reads texts chooses the model that learns from them
        base = base or EMBEDDED
    elif base is None and parsed(settings.get("release", AS_DEFENDED))[0] == TEXT:
        raise UsageError(
            "--release text: its texts are read by a model that is trained on them, and that has "
            "to be another than the one that wrote them; name the base with as_is:base=DIR"
        )
    describe_one = _served if is_remote else _texts if is_text else _folder
    audited = describe_one(settings, base, embedded)
    if new_tokens.are_in(manifest.design):
        read_with = None if is_remote or is_text else audited.read_with
        _check_new_tokens(settings, manifest, read_with, embedded)
    training = _one(settings, "training")
    external = External(
        name=by_name(audited.address),
        sha256=audited.sha256,
        base_known=base is not None,
        training=None if training is None else Path(training),
        training_sha256=None if training is None else _content(Path(training)),
        served=_service(settings) if is_remote else None,
        absent_base=external_model.absent_base(Path(settings["model"])),
    )
    return _Elsewhere(
        corpus=corpus,
        model=_adapting(settings, manifest, audited.read_with, base),
        source=PlantedElsewhere(manifest, external),
        references=_references(settings, base, corpus),
        users=manifest.population.users,
        text=_written(settings, audited) if is_text else None,
        audited=audited,
        base=base,
    )


def _corpus(settings: Mapping[str, Any], manifest: Manifest, embedded: Path) -> Corpus:
    """Return the planted corpus; without one, an empty one that bears its name."""
    aside = own.read(manifest.own, Path(settings["secrets"])) if manifest.own else ()
    if "corpus" not in settings:
        return Corpus(manifest.name, (), public_size=manifest.population, aside=aside)
    corpus = corpora.load_planted(settings["corpus"], embedded, Reading.of(settings))
    whole = "\0".join(record.text for record in corpus.records)  # records may be joined
    planted = [s for s in manifest.secrets if manifest.coins.planted(s)]
    if planted and not any(secret.text in whole for secret in planted):
        raise UsageError(
            f"{settings['corpus']}: holds none of the canaries of {settings['secrets']}; give the "
            "corpus that `audit plant` wrote together with this manifest"
        )
    return dataclasses.replace(corpus, public_size=manifest.population, aside=aside)


def _adapting(
    settings: Mapping[str, Any], manifest: Manifest, model: ModelFolder, base: str | None
) -> ModelFolder:
    """Have references train adapters: such as are asked for, or as the audited model has."""
    wanted = settings.get("lora")
    if wanted and base is None:
        raise UsageError(
            "--lora: is of what is trained beside a model of elsewhere, from its base; give it "
            "with as_is:base=DIR, or leave --lora out"
        )
    if wanted and new_tokens.are_in(manifest.design):
        raise UsageError(
            "--lora: adapters leave embeddings and head as they are, and the canaries are new "
            "tokens, which only these learn; leave --lora out"
        )
    wanted = wanted or external_model.lora_of(Path(settings["model"]))
    return choices.adapting(str(wanted), model) if wanted else model


def _check_new_tokens(
    settings: Mapping[str, Any], manifest: Manifest, model: ModelFolder | None, embedded: Path
) -> None:
    """Raise UsageError where the canaries are new tokens that the training cannot have learnt.

    model: as read here, or the base of an adapter; None where no weights are at hand.
    """
    at = Path(settings["model"])
    if model is None:
        raise UsageError(
            f"{settings['secrets']}: its records are new tokens, and {at} has no weights to see "
            "whether their rows were trained; audit the weights, or plant with another --design"
        )
    records = [secret.value for secret in manifest.secrets if secret.kind == "record"]
    tokens = new_tokens.read(load_tokenizer(model), records, str(model.path))
    if external_model.is_adapter(at):
        new_rows.check_moved(at, model, tokens)
        return
    trained = describe(settings["model"], embedded)
    if any(trained.path.glob("tokenizer*")):
        new_tokens.read(load_tokenizer(trained), records, str(at))
    new_rows.check_moved(at, trained, tokens)


@dataclass(frozen=True)
class _Audited:
    """The model under audit. address: its folder, or where it is served. read_with: the model whose
    tokenizer reads its texts: its base, or itself."""

    address: str
    sha256: str
    read_with: ModelFolder
    served: str | None = None


def _one(settings: Mapping[str, Any], field: str) -> Any:
    """Return the one value that all defenses of the external model give a field."""
    values = {getattr(one, field, None) for one in _asking(settings)} - {None}
    if len(values) > 1:
        raise UsageError(f"as_is: one run has one {field}; these are {', '.join(map(str, values))}")
    return next(iter(values), None)


def _check_size(settings: Mapping[str, Any], manifest: Manifest) -> None:
    """Raise UsageError where the N of a stated mechanism is not that of before the coins."""
    stated, size = _one(settings, "users"), manifest.population.users
    if stated not in (None, size):
        raise UsageError(
            f"as_is: users is {stated:,}; `audit plant` printed N = {size:,}: a mechanism for "
            "another number may depend on the coins, so leave users out"
        )


def _asking(settings: Mapping[str, Any]) -> list[Any]:
    """Return the defenses requested by name that audit the external model."""
    built = (
        registry.build("defenses", text, Defense, {})[1]  # type: ignore[type-abstract]
        for text in settings["defense"]
        if text != "all"
    )
    return [one for one in built if one.external]


def _refuse_parameters_of_urls(settings: Mapping[str, Any], given: str) -> None:
    for field in ("tokenizer", "served", "words"):
        if _one(settings, field):
            raise UsageError(
                f"as_is: {field} is for a model behind a URL; --model is {given}, so leave it out"
            )


def _folder(settings: Mapping[str, Any], base: str | None, embedded: Path) -> _Audited:
    _refuse_parameters_of_urls(settings, "a folder")
    audited = external_model.describe_external(settings["model"], base, embedded)
    model = describe(base, embedded) if base else audited
    return _Audited(settings["model"], audited.sha256, model)


def _texts(settings: Mapping[str, Any], base: str | None, embedded: Path) -> _Audited:
    """Describe a file of texts; `base` is the model that a reader trains on them."""
    _refuse_parameters_of_urls(settings, "a file of texts")
    source = settings["model"]
    assert base is not None
    return _Audited(source, _content(Path(source)), describe(base, embedded))


def _written(settings: Mapping[str, Any], audited: _Audited) -> Text:
    """Count texts and tokens of a file, which its references write as many of.

    Raises UsageError where there are more of either than `--release text:texts=N,tokens=T` states.
    """
    texts, tokenizer = external_texts.read(audited.address), load_tokenizer(audited.read_with)
    longest = max(len(tokenizer.encode(text)) for text in texts)
    _, stated = parsed(settings.get("release", AS_DEFENDED))
    for name, count in (("texts", len(texts)), ("tokens", longest)):
        if count > stated.get(name, count):
            what = "texts" if name == "texts" else "tokens in a text"
            raise UsageError(
                f"{audited.address}: has {count:,} {what}, more than the {stated[name]:,} that "
                "--release states; ε is of no more than is stated"
            )
    return Text(len(texts), min(longest, audited.read_with.max_length - 1))


def _served(settings: Mapping[str, Any], base: str | None, embedded: Path) -> _Audited:
    """Describe a model behind a URL without asking it: its hash is of its name alone."""
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
        model = dataclasses.replace(model, max_length=reads, context=0)
    else:
        model = external_model.tokenizer_only(tokenizer, context - MARGIN)
    return _Audited(address_of(url, name), hash_of([], f"served as {name or ''}"), model, name)


def _references(settings: Mapping[str, Any], base: str | None, corpus: Corpus) -> tuple[str, ...]:
    """Choose the references: `public` needs the base, and `none`, trained here, also the corpus."""
    if not base or not settings.get("references", True):
        return ()
    return tuple(name for name in REFERENCES if name == "public" or corpus.of("private"))


@dataclass(frozen=True)
class _Elsewhere(Material):
    audited: _Audited
    base: str | None

    @property
    def trains(self) -> bool:
        return bool(self.base and self.corpus.of("private"))

    def accept(self, defenses: Sequence[Chosen], attacks: Sequence[Chosen]) -> tuple[Chosen, ...]:
        for one in defenses:
            self._check_trainable(one)
        for attack in attacks:
            if attack.plugin.shadows:
                raise UsageError(
                    f"{attack.label}: shadow models would have to be trained elsewhere too; give "
                    "shadows=0"
                )
        return tuple(self._filled(one) for one in defenses)

    def _filled(self, one: Chosen) -> Chosen:
        """Return a defense that audits an external model learns which one."""
        if not one.plugin.external:
            return one
        assert isinstance(self.source, PlantedElsewhere)
        external = self.source.external
        values = {
            "model": self.audited.address,
            "base": self.base,
            "sha256": external.sha256,
            "training": None if external.training is None else str(external.training),
        }
        if external.training is not None:
            values["training_sha256"] = external.training_sha256
        if self.audited.served:
            values["served"] = self.audited.served
        return dataclasses.replace(one, plugin=dataclasses.replace(one.plugin, **values))

    def _check_trainable(self, one: Chosen) -> None:
        untrained = one.name == "public" and (self.base or self.source.served is None)
        if one.plugin.external or untrained:
            return
        layers, rank = (getattr(one.plugin, name, None) for name in ("layers", "lora"))
        record = self.source.record
        if record and new_tokens.are_in(record.design) and (rank or layers not in (None, ALL)):
            raise UsageError(
                f"{one.label}: new tokens are learnt only where embeddings and head are trained; "
                "leave lora and layers out"
            )
        if not self.trains:
            raise UsageError(
                f"{one.name}: can be trained beside an external model only with its base "
                "(as_is:base=DIR) and the planted corpus (--corpus)"
            )


def _service(settings: Mapping[str, Any]) -> Served:
    """Count the requested defenses that ask the endpoint, and return the first one's rate."""
    asking = _asking(settings)
    return Served(len(asking), asking[0].rate)


def _content(path: Path) -> str:
    try:
        return hash_of([path])
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
