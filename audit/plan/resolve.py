"""Resolves settings to a plan: corpus, model and manifest are read, every default is fixed."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

import torch

from audit import policies
from audit.core.corpus import Corpus
from audit.core.digest import sha256_of_file
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError, did_you_mean
from audit.core.fields import from_text
from audit.core.files import LARGEST, regular
from audit.core.guarantee import default_delta
from audit.core.machine import cores
from audit.core.model import ModelFolder
from audit.core.reach import Reach
from audit.core.rules import check_size
from audit.core.secret import CODE_LIKE, OWN, Planting
from audit.core.wording import WORDED, of_template
from audit.corpora import loading as corpora
from audit.corpora.reading import NAMES, Reading
from audit.models import loading
from audit.models.sizes import threads_of
from audit.models.training.fine_tuning import Recipe
from audit.plan import choices, conversations, external, text
from audit.plan.execution import MOST_THREADS
from audit.plan.material import REFERENCES, Material
from audit.plan.plan import LOTS, MOST_LOOKS, Chosen, Earlier, Plan
from audit.plan.source import PlantedHere
from audit.plan.text import AS_DEFENDED
from audit.planting import own

COINS = 120  # enough to refute ε = 2.9 nats
FEW_COINS = 100  # where training is dear: adapters of a model that others made
DEFAULTS: Mapping[str, Any] = {"corpus": "helpdesk", "model": "embedded"}


def resolve(settings: Mapping[str, Any]) -> Plan:
    """Resolve the settings of a run, as `audit.plan.settings.gather` gives them.

    Raises UsageError for what cannot be run.
    """
    wanted = {"defense": (), "attack": (), **settings}
    if external.is_wanted(wanted):
        return _plan(wanted, external.material(wanted, EMBEDDED_FOLDER))
    wanted = {**DEFAULTS, **wanted}
    model = loading.describe(wanted["model"], EMBEDDED_FOLDER)
    corpus = corpora.load(wanted["corpus"], EMBEDDED_FOLDER, Reading.of(wanted))
    return resolve_on(wanted, corpus, model)


def resolve_on(settings: Mapping[str, Any], corpus: Corpus, model: ModelFolder) -> Plan:
    """Resolve settings for a corpus and a model that are read already. Raises UsageError."""
    if settings.get("lora"):
        model = choices.adapting(settings["lora"], model)
    planting = _planting(settings, corpus, model)
    references = REFERENCES if settings.get("references", True) else ()
    users = len(corpus.users("private")) + planting.invented
    return _plan(settings, _Here(corpus, model, PlantedHere(planting), references, users, None))


def _planting(settings: Mapping[str, Any], corpus: Corpus, model: ModelFolder) -> Planting:
    """Choose what is planted. A share of the real users may have coins of their own text."""
    table = _worded(settings.get("planting", {}))
    default = _default_planting(corpus)
    if model.lora and not (model.embedded or corpus.embedded):
        default = _dear_planting(corpus, choices.fewest_kinds(settings["attack"]))
    if "users" in table:  # whoever says how many, says how many
        default = Planting(users=default.users)
    planting: Planting = _table(Planting, table, default)
    share = settings.get("coin_users")
    if share is None:
        return planting
    if "users" in table:
        raise UsageError("--coin-users and planting.users both say how many; give one")
    kinds = tuple(dict.fromkeys((*planting.kinds, OWN)))
    users = own.how_many(share, len(corpus.users("private")))
    return dataclasses.replace(planting, users=users, kinds=kinds)


@dataclass(frozen=True)
class _Here(Material):
    def accept(self, defenses: Sequence[Chosen], attacks: Sequence[Chosen]) -> tuple[Chosen, ...]:
        for chosen in defenses:
            if chosen.plugin.external:
                raise UsageError(
                    f"{chosen.name}: audits one external model, by `audit run --defense "
                    f"{chosen.name} --model MODEL --secrets MANIFEST`; it has no place in a sweep"
                )
        return tuple(defenses)


def _plan(settings: Mapping[str, Any], material: Material) -> Plan:
    model, source = material.model, material.source
    training = _table(Recipe, settings.get("training", {}), default_recipe(model, material.corpus))
    corpus, model = conversations.written(
        material.corpus, model, source.turn, training.assistant_only, source.manner
    )
    delta = settings.get("delta")
    if delta is not None and not 0 <= delta < 1:
        raise UsageError(f"delta is {delta}; it must be at least 0 and below 1")
    check_size("delta", delta)
    beside = choices.remedies(settings["defense"], training)
    named = (*settings["defense"], *(beside if _trains_remedies(settings, material) else ()))
    defenses = choices.with_references(
        choices.defenses(named, settings.get("epsilon"), delta), material.references
    )
    _check_looks(settings, bool(source.model))
    for name in ("utility_tokens", "threads", "looks"):
        if settings.get(name, 1) < 1:
            raise UsageError(f"{name} is {settings[name]}; it must be at least 1")
        check_size(name, settings.get(name))
    if settings.get("threads", 1) > MOST_THREADS:
        raise UsageError(f"threads is {settings['threads']}; it must be at most {MOST_THREADS:,}")
    training = _table(Recipe, settings.get("training", {}), default_recipe(model, corpus))
    if training.max_length > model.longest:
        raise UsageError(
            f"training: max_length is {training.max_length}, but the model reads {model.longest}"
        )
    model = _reading(model, training.max_length)
    if training.checkpoint_activations and model.kind == loading.LSTM:
        raise UsageError("training: checkpoint_activations needs a transformer; leave it out")
    released = material.text or text.of(settings.get("release", AS_DEFENDED), corpus, training)
    if released is not None and model.chat:
        raise UsageError("--release text: is of plain texts; conversations are not released so")
    if released is not None:
        for one in defenses:
            released.check(one.label, model.max_length, getattr(one.plugin, "budget", None))
    device = _device(settings.get("device", "auto"))
    attacks = choices.attacks(settings["attack"], released is not None, source.kinds)
    plan = Plan(
        defenses=material.accept(defenses, attacks),
        attacks=attacks,
        corpus=corpus,
        model=model,
        seed=settings.get("seed", 0),
        delta=default_delta(material.users) if delta is None else delta,
        policy=policies.named(settings.get("policy", "digits")),
        device=device,
        references=bool(material.references),
        utility_tokens=settings.get("utility_tokens", 1024),
        threads=settings.get("threads") or threads_of(model, device, cores()),
        source=material.source,
        training=training,
        text=released,
        reach=_table(Reach, settings.get("silence", {}), Reach()),
        looks=settings.get("looks", 1),
        after=_earlier(Path(settings["after"])) if "after" in settings else None,
        lots=LOTS if settings.get("until") else 1,
    )
    return dataclasses.replace(
        plan,
        command=_command(plan, material, settings),
        remedy=_command(plan, material, settings, beside) if material.trains and beside else "",
    )


def _check_looks(settings: Mapping[str, Any], external: bool) -> None:
    """Raise UsageError for looks that a model cannot have. external: it was trained elsewhere."""
    looks, until = settings.get("looks", 1), settings.get("until")
    if looks > 1 and not external:
        raise UsageError("--looks: is for a model that is audited by as_is more than once")
    if looks > MOST_LOOKS:
        raise UsageError(
            f"--looks is {looks}; it must be at most {MOST_LOOKS}: with more, each has too little "
            "of the level to find anything"
        )
    if until not in (None, "decided"):
        raise UsageError(f"--until is {until!r}; it can be decided")
    if until and not external:
        raise UsageError("--until decided: is for a model that is audited by as_is")
    if "after" in settings and looks == 1:
        raise UsageError("--after: is the look before this one of several; give --looks N, too")
    if until and looks > 1:
        raise UsageError("--until decided and --looks: both share the level out; give one of them")


def _earlier(folder: Path) -> Earlier:
    """Find what the look before this one has seen. Raises UsageError."""
    try:
        return Earlier(folder, sha256_of_file(regular(folder / "evidence.json", LARGEST)))
    except OSError as error:
        why = error.strerror
        raise UsageError(
            f"{folder}: holds no evidence.json of a finished run ({why}); give --after its folder"
        ) from None


def _trains_remedies(settings: Mapping[str, Any], material: Material) -> bool:
    """Return whether remedies are trained; beside a model of elsewhere a command is printed."""
    return bool(settings.get("remedies")) and not material.source.model


def _reading(model: ModelFolder, length: int) -> ModelFolder:
    """Make a model read as much at once as it is trained on, where that is more than usual."""
    return dataclasses.replace(model, max_length=max(length, model.max_length))


def _command(
    plan: Plan, material: Material, settings: Mapping[str, Any], more: Sequence[str] = ()
) -> str:
    """Return the command that runs a plan again, with the paths as given, ready to be pasted.

    more: defenses to train beside the plan's.
    """

    def given(name: str, otherwise: str) -> str:
        value = str(settings.get(name) or otherwise)
        return shlex.quote(otherwise if "://" in value else value)  # a URL may hold a password

    words = ["audit run"]
    words += [f"--defense {one.argument}" for one in plan.defenses if not one.reference]
    words += [f"--defense {shlex.quote(text)}" for text in more]
    words += [f"--attack {one.argument}" for one in plan.attacks]
    if plan.corpus.records and not plan.corpus.embedded:
        words.append(f"--corpus {given('corpus', plan.corpus.name)}")
        read = (name for name in NAMES if name in settings)
        words += [f"--{name.replace('_', '-')} {given(name, '')}" for name in read]
    if plan.source.model:
        model = given("model", plan.source.model["name"])
        words.append(f"--model {model} --secrets {given('secrets', 'MANIFEST.json')}")
    elif not plan.model.embedded:
        words.append(f"--model {given('model', plan.model.name)}")
    if plan.delta != default_delta(material.users):
        words.append(f"--delta {plan.delta}")
    if plan.device != _device("auto"):
        words.append(f"--device {plan.device}")
    if plan.threads > 1:  # else it would depend on the machine
        words.append(f"--threads {plan.threads}")
    if plan.policy != policies.named("digits"):
        words.append(f"--policy {shlex.quote(plan.policy.label)}")
    if _differs(plan, settings):
        words.append("--plan PLAN.toml")  # planting, training …: as `plan` in results.json
    if plan.looks > 1:
        words.append(f"--looks {plan.looks}")
    if plan.after:
        words.append(f"--after {given('after', '')}")
    if plan.lots > 1:
        words.append("--until decided")
    if plan.model.lora:
        words.append(f"--lora {plan.model.lora}")
    if plan.text:
        words.append(f"--release text:texts={plan.text.texts},tokens={plan.text.tokens}")
    if "coin_users" in settings:
        words.append(f"--coin-users {settings['coin_users']:g}")
    words.append(f"--seed {plan.seed}")
    if not plan.references:
        words.append("--no-references")
    return " ".join(words)


def _differs(plan: Plan, settings: Mapping[str, Any]) -> bool:
    """Return whether what only a plan file can set differs from its default."""
    here, by_flag = plan.source.document["planting"], {**settings, "planting": {}}
    return (
        (here is not None and here != _planting(by_flag, plan.corpus, plan.model).document)
        or plan.training != default_recipe(plan.model, plan.corpus)
        or plan.reach != Reach()
        or plan.utility_tokens != 1024
    )


def _device(name: str) -> str:
    if name not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device is {name!r}; it can be auto, cpu or cuda")
    if name == "cpu":
        return name
    if torch.cuda.is_available():
        return "cuda"
    if name == "cuda":
        raise UsageError("device is cuda, but torch sees no CUDA device here; use --device cpu")
    return "cpu"


def _default_planting(corpus: Corpus) -> Planting:
    """Choose all private users of the embedded corpus, else a fifth of them, at most COINS.

    Where these are fewer than COINS, as many invented ones as are missing, and no more than there
    are private users. With fewer epochs than the embedded corpus has, more copies are planted.
    """
    private = len(corpus.users("private"))
    if private < 2:
        raise UsageError(f"corpus {corpus.name}: {private} private user; coins need at least 2")
    if corpus.embedded:
        return Planting(users=private)
    own = max(2, min(COINS, private // 5))
    invented = min(COINS - own, private)
    copies: dict[str, Any] = {f"{kind}_copies": 12 for kind in ("name", *CODE_LIKE)}
    return Planting(users=own, invented=invented, **copies)


def _dear_planting(corpus: Corpus, kinds: tuple[str, ...]) -> Planting:
    """Choose few copies of few kinds: reading planted text is most of a short training's time."""
    own = max(2, min(FEW_COINS, len(corpus.users("private")) // 5))
    return Planting(users=own, invented=FEW_COINS - own, kinds=kinds)


def _worded(table: Mapping[str, Any]) -> dict[str, Any]:
    """Split the templates of a [planting] table into prefixes and suffixes. Raises UsageError."""
    worded = dict(table)
    for kind in WORDED:
        template = worded.pop(f"{kind}_template", None)
        if template is None:
            continue
        where = f"planting: {kind}_template"
        for end in ("prefix", "suffix"):
            if f"{kind}_{end}" in table:
                raise UsageError(f"{where} and {kind}_{end} are both given; give one")
        words = of_template(str(template), where)
        worded |= {f"{kind}_prefix": words.prefix, f"{kind}_suffix": words.suffix}
    return worded


def default_recipe(model: ModelFolder, corpus: Corpus) -> Recipe:
    """Choose the recipe: tuned for the embedded model and corpus, usual values otherwise.

    Real text varies more than the embedded corpus, and the model overfits it after few epochs.
    Adapters of a model of 270 million parameters that had read codes 20 times gave them away in 5
    of 5 seeds.
    """
    if model.embedded:
        epochs = 24 if corpus.embedded else 4
        return Recipe(epochs, learning_rate=2e-3, batch_tokens=256, max_length=model.max_length)
    if model.kind == "lstm":  # from scratch, which takes longer
        return Recipe(epochs=20, learning_rate=1e-2, batch_tokens=1024, max_length=model.max_length)
    if model.lora:  # few parameters far from their optimum: larger and more steps
        return Recipe(epochs=5, learning_rate=1e-3, batch_tokens=512, max_length=model.max_length)
    rate = 1e-3 if model.parameters < 10_000_000 else 1e-4
    return Recipe(epochs=3, learning_rate=rate, batch_tokens=2048, max_length=model.max_length)


def _table(cls: type[Any], table: dict[str, Any], default: Any) -> Any:
    """Read a plan file's table over a default dataclass. Raises UsageError for unknown keys."""
    hints = get_type_hints(cls)
    name = {Recipe: "training", Reach: "silence"}.get(cls, cls.__name__.lower())
    values = {}
    for key, value in table.items():
        if key not in hints:
            raise UsageError(f"{name}: unknown key {key!r}{did_you_mean(key, list(hints))}")
        text = "+".join(map(str, value)) if isinstance(value, list) else str(value)
        values[key] = from_text(text, hints[key], f"{name}: {key}")
    return dataclasses.replace(default, **values)
