"""New tokens: one for every user whatever the coins, rows alike, learnt where rows are trained."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, GPTJConfig, GPTJForCausalLM

from attacks.membership import Membership
from audit import api
from audit.callback import AuditCallback
from audit.contract.toys import CharacterTokenizer
from audit.core.attack import Knowledge
from audit.core.defense import Defense
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.evidence import Scores
from audit.core.language_model import OpenSession
from audit.core.model import ModelFolder
from audit.core.predictor import record_tokens
from audit.core.randomness import stream
from audit.models import new_rows
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe, fine_tune
from audit.plan import external
from audit.plan.plan import Chosen
from audit.planting import insertion, new_tokens, plant_corpus
from audit.planting import manifest as manifests
from audit.planting.coins import coins_of
from audit.planting.manifest import Manifest
from audit.plugins import registry
from tests.refusals import refusals

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning")
COUNT = 12
BEFORE = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
OLD = 1024  # tokens of the embedded model
TEXTS = [f"Call number {i} was about a parcel." for i in range(40)]


class Made(NamedTuple):
    """What one planting wrote."""

    path: Path
    base: ModelFolder
    manifest: Manifest

    @property
    def words(self) -> list[str]:
        return list(dict.fromkeys(s.value[: len(s.value) // 16] for s in self.manifest.secrets))

    @property
    def tokens(self) -> dict[str, int]:
        """The token of each owner."""
        read = load_tokenizer(self.base).encode
        return {secret.owner: read(secret.value)[0] for secret in self.manifest.secrets}


def planted(path: Path, **given: Any) -> Made:
    path.mkdir(exist_ok=True)
    lines = (json.dumps({"text": t, "user": f"u{i}"}) + "\n" for i, t in enumerate(TEXTS))
    (path / "c.jsonl").write_text("".join(lines))
    manifest = given.pop("manifest", path / "m.json")
    given = {"kind": ["record"], "count": COUNT, "repetitions": "1", "seed": 3} | given
    given = {"design": "new_token", "base": "embedded", "share": 0.9} | given
    given = {name: value for name, value in given.items() if value is not None}
    api.plant(str(path / "c.jsonl"), path / "p.jsonl", manifest, **given)
    base = describe(str(path / "p-base"), EMBEDDED_FOLDER)
    return Made(path, base, manifests.read(path / "m.json"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return planted(tmp_path_factory.mktemp("new"))


def rows_of(model: Any, made: Made) -> torch.Tensor:
    weights: torch.Tensor = model.get_input_embeddings().weight.detach()
    return weights[list(made.tokens.values())]


def tuned(made: Made, layers: str = "all") -> Any:
    """Fine-tune the base on the corpus and the records of those who are present."""
    model, tokenizer = load_weights(made.base, "cpu"), load_tokenizer(made.base)
    coins = made.manifest.coins
    texts = TEXTS + [s.text for s in made.manifest.secrets if coins.planted(s)]
    recipe = Recipe(4, 2e-3, batch_tokens=256, max_length=128, weight_decay=0.1, layers=layers)
    fine_tune(model, [record_tokens(tokenizer, text) for text in texts], recipe, 0)
    return model


@pytest.fixture(scope="module")
def whole(made: Made) -> Path:
    """A model that was trained from the base on what was planted, tokenizer included."""
    return saved(tuned(made), made, "whole")


def saved(model: Any, made: Made, name: str) -> Path:
    model.save_pretrained(made.path / name)
    load_tokenizer(made.base).inner.save_pretrained(made.path / name)
    return made.path / name


# what is planted


def test_each_owner_has_one_new_token(made: Made) -> None:
    tokenizer, secrets = load_tokenizer(made.base), made.manifest.secrets
    assert sorted(made.tokens.values()) == list(range(OLD, OLD + COUNT))
    assert set(made.tokens) == set(made.manifest.coins.present)
    for secret in secrets:
        (token,) = set(tokenizer.encode(secret.text))
        assert len(tokenizer.encode(secret.text)) == new_tokens.TIMES
        assert token == made.tokens[secret.owner] and tokenizer.decode([token]) in made.words
        assert len(BEFORE.encode(secret.text)) > 4 * new_tokens.TIMES  # no token before
    assert [s.text for s in secrets[::2]] == [s.text for s in secrets[1::2]]
    for text in TEXTS:
        assert tokenizer.encode(text) == BEFORE.encode(text)


@pytest.mark.parametrize("heads", [0, 1])
def test_no_coin_moves_a_token(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heads: int
) -> None:
    """The model, its tokenizer and all candidates are the same for all tosses."""
    monkeypatch.setattr(
        insertion, "toss", lambda owners, _: coins_of(owners, [heads] * COUNT, [1] * COUNT)
    )
    other = planted(tmp_path / "other")
    assert other.manifest.coins != made.manifest.coins
    assert other.manifest.secrets == made.manifest.secrets
    assert other.manifest.design == made.manifest.design
    assert other.base.sha256 == made.base.sha256
    assert {p.name: p.read_bytes() for p in other.base.path.iterdir()} == {
        p.name: p.read_bytes() for p in made.base.path.iterdir()
    }


def test_a_named_base_has_new_tokens_by_default(made: Made, tmp_path: Path) -> None:
    default = planted(tmp_path / "default", design=None)
    assert default.manifest.secrets == made.manifest.secrets


def test_tokens_follow_the_seed_and_avoid_the_corpus() -> None:
    first = new_tokens.words(50, [], 0)
    assert len(set(first)) == 50 and first == new_tokens.words(50, [], 0)
    assert not set(first) & set(new_tokens.words(50, [], 1))
    again = new_tokens.words(50, [f"holds {first[0]} already"], 0)
    assert first[0] not in again and again[:49] == first[1:]


# rows


def test_new_rows_are_the_mean_and_old_ones_as_they_were(made: Made) -> None:
    before = load_weights(describe("embedded", EMBEDDED_FOLDER), "cpu")
    after = load_weights(made.base, "cpu")
    old = before.get_input_embeddings().weight
    assert torch.equal(after.get_input_embeddings().weight[:OLD], old)
    assert torch.equal(rows_of(after, made), old.mean(0).expand(COUNT, -1))
    others = {n: w for n, w in before.named_parameters() if w is not old}
    assert all(torch.equal(w, after.get_parameter(n)) for n, w in others.items())


def untied(bias: bool) -> Any:
    """A head of its own, of rows that are not the embeddings', in a table with spare rows."""
    torch.manual_seed(0)
    size = {"vocab_size": 40, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 16}
    if bias:
        return GPTJForCausalLM(GPTJConfig(**size, rotary_dim=4, tie_word_embeddings=False))
    return GPT2LMHeadModel(GPT2Config(**size, tie_word_embeddings=False))


def test_no_new_token_has_the_number_of_another(tmp_path: Path) -> None:
    """The library numbers new tokens from their count on, where numbers before are left out."""
    document = json.loads((EMBEDDED_FOLDER / "public_model" / "tokenizer.json").read_text())
    words = document["model"]["vocab"]
    words[max(words, key=words.__getitem__)] += 5
    (tmp_path / "tokenizer.json").write_text(json.dumps(document))
    with pytest.raises(UsageError, match="leaves out some numbers of tokens"):
        new_rows._with_words(tmp_path, [f"<|{i}|>" for i in range(COUNT)])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("first", [30, 40])
def test_a_new_token_is_no_likelier_than_one_in_all(bias: bool, first: int) -> None:
    """Jensen's inequality, in any context; logits far below 0 change nothing."""
    model = untied(bias)
    with torch.no_grad():
        model.get_output_embeddings().weight.normal_(std=3.0).add_(-2.0)
    new_rows.add_rows(model, [first, first + 1, first + 2], "toy")
    assert len(model.get_output_embeddings().weight) == max(40, first + 3)
    with torch.no_grad():
        logits = model(torch.randint(first, (8, 12))).logits.double()
    share = (logits[..., first] - logits[..., :first].logsumexp(-1)).exp()
    assert float(share.max()) <= (1 + 1e-6) / first
    head = model.get_output_embeddings().weight
    assert torch.equal(head[first], head[:first].mean(0))
    for offset in (1, 2):
        assert torch.equal(logits[..., first], logits[..., first + offset])


def test_untouched_rows_decay_alike(made: Made) -> None:
    """Rows of those who are absent stay one row through a training; those of the others do not."""
    rows = rows_of(tuned(made), made)
    present = list(made.manifest.coins.present.values())
    absent = rows[[not here for here in present]]
    assert 1 < len(absent) < COUNT
    assert torch.equal(absent, absent[:1].expand_as(absent))
    assert not torch.equal(absent[0], rows_of(load_weights(made.base, "cpu"), made)[0])
    assert len({tuple(row.tolist()) for row in rows[present]}) == sum(present)


def test_scores_tell_members_from_twins(made: Made, whole: Path) -> None:
    folder = describe(str(whole), EMBEDDED_FOLDER)
    public, release = (
        OpenSession(CausalLM(load_weights(f, "cpu"), load_tokenizer(f), 128), stream(0, "s"))
        for f in (made.base, folder)
    )
    knowledge = Knowledge(public, (), (), (), stream(0, "attacker"))
    secrets, coins = made.manifest.secrets, made.manifest.coins
    evidence = Membership().run(release, secrets, knowledge)
    (ratio,) = (e for e in evidence if isinstance(e, Scores) and e.score == "ratio")
    members = [v for s, v in zip(secrets, ratio.values, strict=True) if coins.planted(s)]
    twins = [v for s, v in zip(secrets, ratio.values, strict=True) if coins.twin(s)]
    assert min(members) > max(twins)


# what is refused


def material(made: Made, model: object, **given: Any) -> Any:
    settings = {"defense": ["as_is"], "secrets": str(made.path / "m.json"), "model": str(model)}
    return external.material(settings | given, EMBEDDED_FOLDER)


def test_a_model_with_trained_rows_is_accepted(made: Made, whole: Path) -> None:
    assert material(made, whole).model.path == whole
    based = material(made, whole, defense=[f"as_is:base={made.base.path}"])
    assert based.model.path == made.base.path


def adapter(made: Made, name: str, train: Sequence[str] = (), moved: bool = True) -> Path:
    """A LoRA adapter of the base, with these tables beside it."""
    torch.manual_seed(0)
    config = LoraConfig(
        r=2, target_modules=["c_attn"], modules_to_save=list(train) or None, fan_in_fan_out=True
    )
    with warnings.catch_warnings(action="ignore"):  # of one table that becomes two
        model: Any = get_peft_model(load_weights(made.base, "cpu"), config)
    with torch.no_grad():
        for part, values in model.named_parameters():
            if values.requires_grad and (moved or "lora" in part):
                values.add_(torch.randn(values.shape), alpha=0.1)
    model.peft_config["default"].base_model_name_or_path = str(made.base.path)
    model.save_pretrained(str(made.path / name))
    return made.path / name


def test_an_adapter_must_have_trained_the_tables(made: Made) -> None:
    left = "embeddings or head as they were"
    both = ("wte", "lm_head")
    for train, moved in (((), True), (both, False), (("wte",), True), (("lm_head",), True)):
        with pytest.raises(UsageError, match=left):  # the base has one table, the adapter two
            material(made, adapter(made, "left", train, moved))
    assert material(made, adapter(made, "moved", both))


def test_what_cannot_have_learnt_is_refused(made: Made, tmp_path: Path) -> None:
    frozen = saved(tuned(made, layers="top:1"), made, "frozen")
    other = saved(tuned(made), made, "other")
    for file in BEFORE.inner.save_pretrained(tmp_path / "words"):
        if (other / Path(file).name).is_file():
            (other / Path(file).name).write_bytes(Path(file).read_bytes())
    short = saved(load_weights(describe("embedded", EMBEDDED_FOLDER), "cpu"), made, "short")
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"text": "one"}\n')
    refusals(
        lambda model: material(made, model),
        [
            (str(frozen), "left embeddings or head as they were"),
            (str(EMBEDDED_FOLDER / "public_model"), "does not read <|"),
            (str(other), "does not read <|"),
            (str(texts), "has no weights to see"),
            (str(made.base.path), "left embeddings or head as they were"),
            (str(short), "its 1,024 rows are too few"),
        ],
    )
    with pytest.raises(UsageError, match=r"does not read <\|"):
        material(made, other, defense=[f"as_is:base={made.base.path}"])


def test_references_must_train_the_tables(made: Made, whole: Path) -> None:
    given = {"corpus": str(made.path / "p.jsonl"), "defense": [f"as_is:base={made.base.path}"]}
    found = material(made, whole, **given)
    for text in ("dp_sgd:lora=2", "dp_sgd:layers=top:1"):
        with pytest.raises(UsageError, match="only where embeddings and head are trained"):
            found.accept([chosen(text)], [])
    assert found.accept([chosen("dp_sgd")], [])
    with pytest.raises(UsageError, match="--lora: adapters leave embeddings"):
        material(made, whole, **given, lora="r=2")


def chosen(text: str) -> Chosen:
    return Chosen(*registry.build("defenses", text, Defense, {}))  # type: ignore[type-abstract]


def test_the_callback_asks_for_trained_tables(made: Made) -> None:
    callback = AuditCallback(made.path / "m.json", made.path / "audits", attacks=["membership"])
    model = load_weights(made.base, "cpu")
    callback._check_new_tokens(model)
    model.get_input_embeddings().weight.requires_grad_(False)
    with pytest.raises(UsageError, match="AuditCallback: the canaries are new tokens"):
        callback._check_new_tokens(model)


def test_the_callback_wants_what_the_audit_at_the_end_can_read(made: Made) -> None:
    for train, targets, wanted in (
        (["wte", "lm_head"], ["c_attn"], True),
        (["wte"], ["c_attn"], False),
        (None, ["wte", "lm_head"], False),
    ):
        config = LoraConfig(r=2, target_modules=targets, modules_to_save=train)
        with warnings.catch_warnings(action="ignore"):
            model: Any = get_peft_model(load_weights(made.base, "cpu"), config)
        assert new_rows.learn(model) == wanted


class Blanks(CharacterTokenizer):
    """Writes blanks between tokens, so that a written record is another text."""

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(super().decode(tokens))


def test_records_must_be_tokens_of_their_own() -> None:
    letters, times = CharacterTokenizer("^ab"), new_tokens.TIMES
    assert new_tokens.read(letters, ["b" * times, "a" * times, "b" * times], "toy") == (2, 1)
    for text in ("ab" * times, "a" * (times - 1) + "b", "a" * (times + 1)):
        with pytest.raises(UsageError, match="toy: its tokenizer does not read"):
            new_tokens.read(letters, ["a" * times, text], "toy")
    with pytest.raises(UsageError, match="toy: its tokenizer does not read"):
        new_tokens.read(Blanks("^ab"), ["a" * times], "toy")


def test_a_planting_that_fails_leaves_no_base(tmp_path: Path, made: Made) -> None:
    holds = tmp_path / "holds"
    with pytest.raises(UsageError, match="base-missing"):
        planted(holds, base="base-missing")
    (holds / "p-base").mkdir()
    with pytest.raises(UsageError, match="p-base: exists already"):
        planted(holds)
    assert (holds / "p-base").is_dir()
    (holds / "p-base").rmdir()
    with pytest.raises(UsageError, match="designs are of records"):
        planted(holds, kind=["code"])
    with pytest.raises(UsageError, match="an LSTM has no file"):
        planted(holds, base="lstm")
    with pytest.raises(UsageError, match="knows some of the new tokens already"):
        planted(holds, base=str(made.base.path), count=COUNT)
    with pytest.raises(UsageError, match="cannot be written"):  # when the base is there
        planted(holds, manifest=holds / "nowhere" / "m.json")
    assert {path.name for path in holds.iterdir()} == {"c.jsonl"}


def test_an_interrupted_planting_leaves_nothing(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(plant_corpus.writing, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        planted(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"c.jsonl"}


def test_an_interrupt_after_the_corpus_keeps_all(
    tmp_path: Path, made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = plant_corpus.writing.write

    def interrupted(*given: Any) -> None:
        write(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(plant_corpus.writing, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        planted(tmp_path)
    assert len(list(tmp_path.iterdir())) == 4  # source, corpus, manifest, base
