import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest

from audit import policies
from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.guarantee import default_delta
from audit.core.model import ModelFolder
from audit.core.reach import Reach
from audit.core.secret import KINDS, Planting
from audit.corpora import writing
from audit.corpora.loading import load
from audit.models.loading import describe
from audit.models.training.fine_tuning import Recipe
from audit.plan import resolve
from audit.plan.execution import Execution, execution
from audit.plan.plan import Chosen, Earlier, Plan
from audit.plan.resolve import resolve_on
from audit.plan.source import External, PlantedElsewhere, PlantedHere
from audit.plan.text import Text
from audit.planting import manifest as manifests
from audit.planting.insertion import Canaries, plant_into
from defenses.as_is import AsIs
from tests.builders import dialogs
from tests.refusals import refusals

MODEL = ModelFolder("tiny", Path("/somewhere/tiny"), "f" * 64, 1000, 50, 64)


def corpus(users=20, name="own"):
    rows = [Record(f"u{i}", f"text {i}", None, "private") for i in range(users)]
    return Corpus(name, (*rows, Record("h", "held out", None, "heldout")))


def planned(*, of=None, model=MODEL, **settings):
    given = {"defense": ("submix",), "attack": ("extraction",), "device": "cpu", **settings}
    return resolve_on(given, of or corpus(), model)


def parameters(plan, name):
    return [c.parameters for c in plan.defenses if c.name == name]


def test_threads_follow_the_models_size_and_the_cores(monkeypatch):
    def threads(parameters, cores, **settings):
        monkeypatch.setattr(resolve, "cores", lambda: cores)
        plan = planned(model=dataclasses.replace(MODEL, parameters=parameters), **settings)
        assert (f"--threads {plan.threads}" in plan.command) == (plan.threads > 1)
        return plan.threads

    assert threads(49_000_000, cores=16) == 1
    assert [threads(270_000_000, cores=cores) for cores in (1, 2, 16)] == [1, 2, 2]
    assert [threads(7_000_000_000, cores=cores) for cores in (4, 16)] == [4, 8]
    assert threads(270_000_000, cores=2, threads=1) == 1
    assert threads(1000, cores=2, threads=3) == 3


# the hash


def changed(value):
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return value / 2 + 0.001
    if isinstance(value, int):
        return value + 1
    if value == "all":  # of the layers
        return "top:1"
    if value == "assistant":  # whose turn a secret is
        return "user"
    if isinstance(value, str):
        return value + "x"
    if value is None:
        return 0.5
    return value[:-1]


def test_every_field_of_a_plan_changes_its_hash():
    plan = planned(planting={"kinds": [*KINDS[::-1]], "pattern": "EMP-[0-9]{6}"})
    others = {
        "corpus": [corpus(19)],
        "model": [dataclasses.replace(MODEL, sha256="e" * 64)],
        "source": [PlantedHere(one) for one in each_changed(plan.source.planting)],
        "policy": [policies.named("digits,miss=0.5")],
        "training": [*each_changed(plan.training)],
        "text": [Text(7, 8)],
        "after": [Earlier(Path("first"), "a" * 64), Earlier(Path("first"), "b" * 64)],
        "reach": [Reach(hits=0.2), Reach(scores=0.2), Reach(power=0.9)],
    }
    for name in (f.name for f in dataclasses.fields(Plan) if f.compare):
        values = others[name] if name in others else [changed(getattr(plan, name))]
        hashes = {dataclasses.replace(plan, **{name: value}).hash for value in values}
        assert len(hashes | {plan.hash}) == len(values) + 1, name


def each_changed(table):
    """The table with one field changed, for each of its fields."""
    for field in dataclasses.fields(table):
        value = changed(getattr(table, field.name))
        yield dataclasses.replace(table, **{field.name: value})


def test_another_source_changes_the_hash():
    one, two = (plant_into(corpus(), Canaries(count=2), seed=seed)[1] for seed in (0, 1))
    external = External("out", "a" * 64, base_known=True)
    sources = [
        PlantedHere(planned().source.planting),
        PlantedElsewhere(one, external),
        PlantedElsewhere(two, external),
        PlantedElsewhere(one, dataclasses.replace(external, name="other")),
        PlantedElsewhere(one, dataclasses.replace(external, sha256="b" * 64)),
        PlantedElsewhere(one, dataclasses.replace(external, base_known=False)),
        PlantedElsewhere(one, dataclasses.replace(external, training_sha256="c" * 64)),
    ]
    plans = [dataclasses.replace(planned(), source=source) for source in sources]
    assert len({plan.hash for plan in plans}) == len(plans)
    assert dataclasses.replace(planned(), command="audit run").hash == planned().hash


def test_every_setting_changes_the_hash():
    changes = (
        *({"defense": (name,)} for name in ("submix:k=4", "submix:beta=0.5")),
        *({"defense": ("submix", "uniform")}, {"attack": ("extraction:generations=99",)}),
        *({"epsilon": 3.0}, {"seed": 1}, {"delta": 1e-6}, {"references": False}),
        *({"planting": {"kinds": ["code"]}}, {"training": {"warmup": 0.2}}),
    )
    hashes = {plan.hash for plan in (planned(), *(planned(**change) for change in changes))}
    assert len(hashes) == len(changes) + 1
    assert planned().hash == planned().hash and len(planned().hash) == 64


def test_explicit_defaults_are_the_same_plan():
    assert planned(defense=("submix:k=8",), seed=0, utility_tokens=1024).hash == planned().hash
    assert planned(epsilon=2).hash == planned().hash
    assert planned(delta=1e-5).hash == planned().hash


def test_execution_is_not_in_the_plan():
    elsewhere = {"output": "x", "format": ("json",), "workers": 3, "reveal": True, "author": "me"}
    assert planned(**elsewhere).hash == planned().hash
    assert planned(model=dataclasses.replace(MODEL, path=Path("/other"))).hash == planned().hash
    assert "/somewhere" not in json.dumps(planned().document)
    plan, how = ({f.name for f in dataclasses.fields(kind)} for kind in (Plan, Execution))
    assert not plan & how


def test_an_asked_reference_is_another_plan():
    """results.json then says "reference": false and audits it: two plans, two hashes."""
    asked = planned(defense=("submix", "none", "public"))
    assert [c.reference for c in asked.defenses] == [False, False, False]
    assert asked.hash != planned().hash


@dataclasses.dataclass(frozen=True)
class Reads:
    """Stands in for an attack with a folder among its parameters."""

    pipeline: str | None = None
    share: float = 0.5


def test_a_folders_place_is_not_in_plans():
    here, there, other = (
        dataclasses.replace(planned(), attacks=(Chosen("reads", Reads(pipeline=path)),))
        for path in ("/home/ann/names_sm", "/srv/models/names_sm", "/srv/models/names_lg")
    )
    assert here.hash == there.hash != other.hash
    for plan in (here, there, other):
        assert "/srv" not in json.dumps(plan.document) and "/home" not in json.dumps(plan.document)
    assert here.document["attacks"][0]["parameters"] == {"pipeline": "names_sm", "share": 0.5}
    assert here.attacks[0].label == "reads:pipeline=names_sm"
    assert here.attacks[0].parameters["pipeline"] == "/home/ann/names_sm"  # it is still found


# defenses, references and ε


def names(plan):
    return [(c.name, c.reference) for c in plan.defenses]


def test_references_run_beside_what_is_asked():
    assert names(planned()) == [("submix", False), ("none", True), ("public", True)]
    assert names(planned(references=False)) == [("submix", False)]
    for name, other in (("none", "public"), ("public", "none")):
        found = names(planned(defense=(name, "submix")))
        assert found == [(name, False), ("submix", False), (other, True)]


def test_a_reference_stays_unless_exactly_asked():
    """`public:pseudo=true` is another model than the plain one."""
    found = planned(defense=("public:pseudo=true", "submix"))
    assert names(found) == [
        ("public", False), ("submix", False), ("none", True), ("public", True)
    ]  # fmt: skip
    assert [c.plugin.pseudo for c in found.defenses if c.name == "public"] == [True, False]
    for same in ("public", "public:pseudo=false"):
        assert names(planned(defense=(same,))) == [("public", False), ("none", True)]
    both = names(planned(defense=("public", "public:pseudo=true")))
    assert both == [("public", False), ("public", False), ("none", True)]


def test_remedies_are_trained_beside_what_is_audited():
    def labels(*named, **settings):
        plan = planned(defense=named, remedies=True, **settings)
        return [chosen.label for chosen in plan.defenses if not chosen.reference]

    assert labels("submix", training={"epochs": 8}) == [
        "submix", "none:dedup=near", "none:epochs=2", "dp_sgd",
    ]  # fmt: skip
    assert labels("dp_sgd:epsilon=2.0", "none:dedup=near", training={"epochs": 1}) == [
        "dp_sgd:epsilon=2.0", "none:dedup=near",
    ]  # fmt: skip


def test_a_model_of_elsewhere_has_a_remedy_until_all_are_trained_beside_it(tmp_path):
    planted, manifest = plant_into(dialogs(5), Canaries(count=16, repetitions=(4,)), seed=5)
    manifests.write(manifest, tmp_path / "canaries.json")
    writing.write(planted.records, tmp_path / "planted.jsonl")
    given = {
        "model": str(EMBEDDED_FOLDER / "public_model"), "secrets": str(tmp_path / "canaries.json"),
        "corpus": str(tmp_path / "planted.jsonl"), "attack": ("extraction",),
    }  # fmt: skip
    audited = "as_is:base=embedded"
    remedy = resolve.resolve({**given, "defense": (audited,)}).remedy
    beside = [word for word in remedy.split() if word.startswith(("none", "dp_sgd"))]
    assert beside == ["none:dedup=near", "none:epochs=1", "dp_sgd"]
    assert not resolve.resolve({**given, "defense": (audited, *beside)}).remedy
    assert not resolve.resolve({**given, "defense": ("as_is",)}).remedy  # nothing to train from
    del given["corpus"]
    assert not resolve.resolve({**given, "defense": (audited,)}).remedy  # nothing to train on


def test_all_means_every_plugin_once():
    from audit.plugins import registry

    plan = planned(defense=("all",), attack=("all",))
    trained = [n for n in registry.names("defenses") if n != "as_is"]  # audits an external model
    assert [c.name for c in plan.defenses if not c.reference] == trained
    written = planned(attack=("all",), release="text")
    on_planted = [name for name in registry.names("attacks") if name != "own_records"]
    assert [c.name for c in written.attacks] == on_planted
    on_models = [name for name in on_planted if name not in ("copies", "ngram")]
    assert [c.name for c in plan.attacks] == on_models
    assert [c.name for c in plan.defenses if c.reference] == ["seqpate"] * 2  # its controls


def test_all_attacks_are_those_on_what_is_planted():
    """An attack that is named for other secrets is still refused, later, in one line."""
    plan = planned(attack=("all",), planting={"kinds": ["code", "email"]})
    chosen = {c.name for c in plan.attacks}
    assert {"extraction", "membership"} <= chosen
    assert chosen.isdisjoint({"exposure", "name_leak"})
    assert "exposure" in {c.name for c in planned(attack=("all",)).attacks}


def test_epsilon_goes_to_every_defense_that_has_it():
    plan = planned(defense=("submix", "submix:k=4", "submix:epsilon=5", "uniform"), epsilon=1.0)
    assert [p["epsilon"] for p in parameters(plan, "submix")] == [1.0, 1.0, 5.0]
    assert parameters(plan, "uniform") == [{}]
    assert type(parameters(planned(epsilon=1), "submix")[0]["epsilon"]) is float


def test_an_epsilon_for_no_defense_is_refused():
    """Or for one, where it is not above 0 and finite."""
    for epsilon in (0, -1.0, math.nan, math.inf):
        refusals(
            lambda given: planned(**given),
            [
                ({"epsilon": epsilon}, "epsilon is"),
                ({"defense": (f"submix:epsilon={epsilon}",)}, "submix: epsilon is"),
            ],
        )
    nobody = {"defense": ("none", "uniform"), "epsilon": 1.0}
    refusals(
        lambda references: planned(**nobody, references=references),
        [(True, "no requested defense has one"), (False, "no requested defense has one")],
    )


def test_what_cannot_be_run_is_refused():
    refusals(
        lambda settings: planned(**settings),
        [
            ({"defense": ()}, "no defense"),
            ({"attack": ()}, "no attack"),
            ({"defense": ("submix", "submix:k=8")}, "submix is named twice"),
            ({"attack": ("extraction", "extraction")}, "extraction is named twice"),
            ({"of": corpus(1)}, "at least 2"),
            *(({"delta": delta}, "delta") for delta in (1.0, -1e-9, math.nan)),
            *(({"threads": number}, "threads") for number in (0, 1025)),
            ({"utility_tokens": 0}, "utility_tokens"),
            ({"policy": "digit"}, "'digits'"),
            ({"device": "gpu"}, "device"),
            ({"planting": {"user": 3}}, "planting: unknown key 'user'; did you mean 'users'"),
            ({"planting": {"users": "x"}}, "planting: users is 'x'"),
            ({"planting": {"kinds": ["cod"]}}, "'cod'"),
            ({"planting": {"id_copies": []}}, "planting: id_copies"),
            ({"training": {"epoch": 3}}, "training: unknown key 'epoch'; did you mean 'epochs'"),
            ({"training": {"epochs": 1.5}}, "training: epochs is '1.5'"),
            ({"training": {"epochs": -1}}, "epochs"),
            ({"training": {"learning_rate": "nan"}}, "learning_rate"),
            *(({"training": {"max_length": most}}, "max_length") for most in (0, 65)),  # of 64
            ({"training": {"warmup": 2}}, "warmup"),
        ],
    )
    assert len(planned(defense=("submix", "submix:k=4")).defenses) == 4


# defaults


def test_delta_is_a_tenth_of_one_user():
    """And at most 1 in 100,000; the command names it where it is another."""
    assert planned().delta == 1e-5
    assert planned(delta=0.0).delta == 0.0
    assert [default_delta(n) for n in (20, 10_000, 20_000)] == [1e-5, 1e-5, 5e-6]
    assert "--delta" not in planned().command + planned(delta=1e-5).command
    assert "--delta 0.005" in planned(delta=1 / 200).command


def test_the_command_is_quoted_without_a_password():
    """The path as it was given; a URL may hold a password, and is no part of it."""
    assert "--corpus 'my mails/all.jsonl' " in planned(corpus="my mails/all.jsonl").command
    external = AsIs(base="my models/base", training="planted.jsonl")
    given = Chosen("as_is", external)
    assert given.argument == "'as_is:base=my models/base,training=planted.jsonl'"
    assert given.label == "as_is:base=base,training=planted.jsonl"
    secret = planned(corpus="https://me:secret@host/data").command
    assert "secret" not in secret and "--corpus own" in secret


def test_own_and_invented_users_make_120_coins():
    """There are never more invented users than private ones, of whom the model is to learn."""
    for private, planted, invented in (
        *((2, 2, 2), (9, 2, 9), (20, 4, 20), (231, 46, 74)),
        *((599, 119, 1), (600, 120, 0), (1000, 120, 0)),
    ):
        plan = planned(of=corpus(private))
        assert (plan.source.planting.users, plan.source.planting.invented) == (planted, invented)
        assert plan.delta == default_delta(private + invented)
    assert planned(planting={"users": 5}).source.planting == Planting(users=5)
    both = planned(planting={"users": 5, "invented": 7}).source.planting
    assert (both.users, both.invented) == (5, 7)


def test_adapters_learn_few_kinds_of_a_hundred_people_in_more_steps():
    """Reading what is planted is most of a short training: 60 mails, two attacks, one kind."""

    def few(*attack, **more):
        return planned(of=corpus(60), lora="r=2", attack=attack, **more)

    plan = few("membership", "extraction")
    planting, recipe = plan.source.planting, plan.training
    assert (planting.users, planting.invented, planting.kinds) == (12, 88, ("code",))
    assert (recipe.epochs, recipe.learning_rate, recipe.batch_tokens) == (5, 1e-3, 512)
    assert recipe.epochs * planting.code_copies == 20 and "--plan" not in plan.command
    kinds = {"exposure": ("id",), "name_leak": ("name",), "copies": ("code",)}
    assert {name: few(name).source.planting.kinds for name in kinds} == kinds
    assert few("name_leak", "extraction").source.planting.kinds == ("name", "code")
    assert few("all").source.planting.kinds == Planting(users=2).kinds
    assert few("extraction", planting={"users": 5}).source.planting.invented == 0
    assert planned(of=corpus(60)).training.epochs == 3  # without adapters


def test_no_invented_users_are_unsaid():
    assert "invented" not in Planting(users=5).document
    assert Planting(users=5, invented=1).document["invented"] == 1


def test_embedded_defaults_are_not_of_a_name(tmp_path):
    """All users of the embedded corpus have coins; the embedded model has a recipe of its own."""
    helpdesk = load("helpdesk", EMBEDDED_FOLDER)
    assert planned(of=helpdesk).source.planting.users == len(helpdesk.users("private"))
    path = tmp_path / "helpdesk.jsonl"
    path.write_text("".join(f'{{"user": {i}, "text": "x{i}"}}\n' for i in range(50)))
    assert planned(of=load(str(path), EMBEDDED_FOLDER)).source.planting.users == 8
    recipes = [planned(model=describe("embedded", EMBEDDED_FOLDER)).training]
    for name in ("embedded", "other"):
        shutil.copytree(EMBEDDED_FOLDER / "public_model", tmp_path / name)
        folder = describe(str(tmp_path / name), EMBEDDED_FOLDER)
        recipes.append(planned(model=folder).training)
    assert recipes[0] != recipes[1] == recipes[2]


def test_tables_override_single_defaults():
    plan = planned(planting={"users": 3}, training={"epochs": 9, "learning_rate": 0.5})
    assert plan.source.planting == Planting(users=3)
    assert isinstance(plan.training, Recipe)
    assert (plan.training.epochs, plan.training.learning_rate) == (9, 0.5)
    assert plan.training.batch_tokens == planned().training.batch_tokens


def test_a_label_shows_what_differs_from_the_defaults():
    chosen = {c.label for c in planned(defense=("submix:k=4,alpha=3,beta=0.5",)).defenses}
    assert chosen == {"submix:k=4,alpha=3.0,beta=0.5", "none", "public"}
    plan = planned(defense=("submix:k=4,alpha=3,beta=0.5",))
    again = planned(defense=tuple(c.label for c in plan.defenses if not c.reference))
    assert again.hash == plan.hash  # a label can be asked for again


# execution


def test_an_execution_has_defaults_or_is_refused():
    assert execution({}) == Execution(None, ("json", "html", "pdf"), 0, 1, False)
    given = {"output": "x", "workers": 2, "format": ("json",), "author": " Ann "}
    assert execution(given) == Execution(Path("x"), ("json",), 2, 1, False, "Ann")
    wrong = ({"format": ("htm",)}, {"format": ("_page",)}, {"workers": -1},
             {"author": "a" * 61}, {"author": "Ann\nMiller"}, {"author": "\x1bAnn"})  # fmt: skip
    refusals(execution, [(settings, "") for settings in wrong])


def test_silence_is_stricter_or_laxer_and_never_free() -> None:
    usual = planned(silence={"hits": 0.25, "power": 0.8})
    assert usual.hash == planned().hash and "silence" not in usual.document
    stricter = planned(silence={"scores": 0.2, "power": 0.9})
    assert stricter.document["silence"] == {"scores": 0.2, "power": 0.9}
    assert stricter.reach.hits == 0.25 and "--plan PLAN.toml" in stricter.command
    for table, why in {
        "hits": [(0.6, "silence: hits is 0.6; it must be above 0 and at most 0.5"),
                 (0, "hits is 0"), ("nan", "hits is nan"), ("inf", "hits is inf"),
                 ("few", "expected a number")],
        "power": [(1, "power is 1.0"), (0.4, "at least 0.5 and below 1")],
        "score": [(0.2, "silence: unknown key 'score'; did you mean 'scores'?")],
    }.items():  # fmt: skip
        for value, message in why:
            with pytest.raises(UsageError) as raised:
                planned(silence={table: value})
            assert message in str(raised.value)


def test_controls_run_as_references() -> None:
    """Each once, and none where no references run or where it was asked for."""
    given: dict[str, object] = {
        "attack": ("extraction",),
        "defense": ("seqpate:epsilon=1", "seqpate:epsilon=3"),
    }
    labels = [(c.label, c.reference) for c in planned(**given).defenses if c.name == "seqpate"]
    assert labels == [
        ("seqpate:epsilon=1.0", False),
        ("seqpate:epsilon=3.0", False),
        ("seqpate:epsilon=1.0,answers=noise", True),
        ("seqpate:answers=exact", True),
        ("seqpate:epsilon=3.0,answers=noise", True),
    ]
    alone = planned(**{**given, "references": False}).defenses
    assert [c.label for c in alone] == ["seqpate:epsilon=1.0", "seqpate:epsilon=3.0"]
    asked = planned(**{**given, "defense": ("seqpate", "seqpate:answers=exact")}).defenses
    assert [c.reference for c in asked if "exact" in c.label] == [False]
