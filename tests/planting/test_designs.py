"""Designed records: filtered without a look at coins, distinct, of one length, scored as said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from audit.contract.toys import Bigram, CharacterTokenizer
from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.models.loading import describe, load_tokenizer
from audit.planting import designs, insertion
from audit.planting import manifest as manifests
from audit.planting.candidates import RUN, Candidate, copied, distinct, fit
from audit.planting.coins import coins_of
from audit.planting.designs import DESIGNS, Base, Designed, make
from audit.planting.insertion import Canaries, plant_into

LETTERS = "".join(chr(0x4E00 + i) for i in range(900))
WANTED = 12


def base(spread: float = 2.0, max_length: int = 64) -> Base:
    """A bigram model of 900 characters, with 0 as its only other token."""
    logits = spread * stream(0, "letters").normal(size=(901, 901))
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    model = Bigram(table, CharacterTokenizer("^" + LETTERS), max_length)
    return Base("toy", "f" * 64, model)


TOY = base()


def public(seed: int = 0) -> list[str]:
    generator = stream(seed, "public")
    return ["".join(LETTERS[int(i)] for i in generator.integers(900, size=20)) for _ in range(9)]


def made(name: str, seed: int = 0, wanted: int = WANTED, corpus: Sequence[str] = ()) -> Designed:
    return make(name, TOY, corpus, public(), wanted, seed)


def nll(prefix: str, value: str) -> float:
    """Mean negative log-likelihood of a value's characters, by hand."""
    tokens = [0, *TOY.model.tokenizer.encode(prefix + value)]
    table = TOY.model.log_table  # type: ignore[attr-defined]
    each = [-table[a, b] for a, b in pairwise(tokens)]
    return float(np.mean(each[len(prefix) :]))


@pytest.mark.parametrize("name", DESIGNS)
def test_a_seed_gives_its_records(name: str) -> None:
    one = made(name, 3)
    assert one == made(name, 3)
    assert not set(one.records) & set(made(name, 4).records)
    assert len(set(one.records)) == WANTED


def all_candidates(name: str, seed: int) -> tuple[tuple[str, str], ...]:
    with pytest.MonkeyPatch.context() as patch:
        rule = replace(DESIGNS[name], unlikely=lambda nlls: np.ones(len(nlls), bool))
        patch.setattr(designs, "DESIGNS", {name: rule})
        return made(name, seed, wanted=40).records


def test_the_band_is_percentiles_50_to_90() -> None:
    kept = DESIGNS["model"].unlikely(np.arange(101.0))
    assert list(np.flatnonzero(kept)) == list(range(50, 91))
    assert not len(DESIGNS["model"].unlikely(np.array([])))


def test_an_echo_ends_as_the_base_would_not() -> None:
    for prefix, value in made("echo").records:
        assert (len(prefix), len(value)) == (16, 24)
        assert nll(prefix, value) >= 6
        assert nll("", prefix) < 5.5
    assert max(nll("", one) for _, one in all_candidates("model", 0)) < 5.8  # 6 is beyond T = 1


@pytest.mark.parametrize("name", DESIGNS)
def test_likelihoods_are_of_the_last_part(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    seen: list[np.ndarray] = []

    def kept(nlls: np.ndarray) -> np.ndarray:
        seen.append(nlls)
        return np.ones(len(nlls), bool)

    monkeypatch.setattr(designs, "DESIGNS", {name: replace(DESIGNS[name], unlikely=kept)})
    by_hand = {nll(*record) for record in made(name, wanted=40).records}
    differences = np.abs(np.array([*by_hand])[:, None] - seen[0]).min(axis=1)
    assert len(by_hand) == 40 and differences.max() < 1e-9


@pytest.mark.parametrize("name", DESIGNS)
def test_no_record_shares_a_run(name: str) -> None:
    before = made(name)
    texts = [prefix + value for prefix, value in before.records]
    corpus = [texts[0], f"begun{texts[1][5 : 5 + RUN]}", texts[2][: RUN - 1]]
    corpus = ["".join(c for c in text if c in LETTERS) for text in corpus]
    after = made(name, corpus=corpus).records
    runs = Counter(run for record in after for run in runs_of("".join(record)))
    assert max(runs.values()) == 1
    assert not {run for text in corpus for run in runs_of(text)} & set(runs)
    refused = made(name, corpus=corpus).document["refused"]
    assert sum(count for why, count in refused.items() if "in a row" in why) >= 2


def runs_of(text: str) -> set[str]:
    return {text[i : i + RUN] for i in range(len(text) - RUN + 1)}


short = st.text("ab", min_size=RUN - 2, max_size=RUN + 4)
letters = CharacterTokenizer("^ab")


def candidate(text: str) -> Candidate:
    return Candidate("", text, tuple(letters.encode(text)), 0)


@given(st.lists(short, max_size=8), st.lists(short, max_size=4))
def test_the_filter_of_runs_is_that_of_substrings(texts: list[str], corpus: list[str]) -> None:
    expected: list[str] = []
    for text in texts:
        known = [*corpus, *expected]
        if not any(run in other for run in runs_of(text) for other in known):
            expected.append(text)
    candidates = [candidate(text) for text in texts]
    seen: set[Any] = set()
    taken = copied(letters, candidates, corpus)
    kept = [*distinct(candidates[:3], taken, seen), *distinct(candidates[3:], taken, seen)]
    assert [one.value for one in kept] == expected


@pytest.fixture(scope="module")
def embedded() -> Any:
    return load_tokenizer(describe("embedded", EMBEDDED_FOLDER))


@given(st.lists(st.integers(0, 1023), min_size=2, max_size=7), st.data())
def test_a_candidate_is_read_as_its_tokens_again(
    embedded: Any, tokens: list[int], data: st.DataObject
) -> None:
    before = data.draw(st.integers(0, len(tokens) - 1))
    found = fit(embedded, tokens, before)
    if found is None:
        return
    text = found.prefix + found.value
    assert embedded.encode(text) == list(found.tokens) and len(found.tokens) == len(tokens)
    assert embedded.encode(found.prefix) == list(found.tokens[:before])
    assert text == embedded.decode(tokens).lstrip() == text.strip()
    assert embedded.stop not in tokens and all(line.strip() for line in text.splitlines())


def test_what_a_file_would_not_keep_is_none(embedded: Any) -> None:
    for text in ("My door is open ", "My door\n\nis open", "My door<|endoftext|>"):
        assert fit(embedded, embedded.encode(text), 0) is None
    for text in ("My door is open", " My door", "My door\nis open"):
        found = fit(embedded, embedded.encode(text), 0)
        assert found is not None and found.value == text.strip()  # the space goes


class Pairs(CharacterTokenizer):
    """Reads "aba" as "ab" and "a", never as "a" and "ba"."""

    def encode(self, text: str) -> list[int]:
        return [3, 1] if text == "aba" else super().encode(text)

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(("", "a", "b", "ab", "ba")[token] for token in tokens)


def test_sampled_tokens_are_read_back() -> None:
    assert fit(Pairs("^ab"), [3, 1], 0) == Candidate("", "aba", (3, 1), 0)
    assert fit(Pairs("^ab"), [1, 4], 0) is None  # as many, but others
    assert fit(Pairs("^ab"), [3, 1], 1) is None  # its prefix is read as two


def test_each_candidate_is_as_likely_to_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its place among the candidates, and in either slot."""
    drawn = designs._drawn(DESIGNS["model"], TOY, public(), 16, stream(0, "once"))
    places = {TOY.model.tokenizer.decode(tokens): i for i, tokens in enumerate(drawn)}
    monkeypatch.setattr(designs, "_drawn", lambda *_: drawn)
    rule = replace(DESIGNS["model"], unlikely=lambda nlls: np.ones(len(nlls), bool))
    monkeypatch.setattr(designs, "DESIGNS", {"model": rule})
    chosen: list[Counter[int]] = [Counter(), Counter()]
    for seed in range(80):
        for slot, (_, value) in enumerate(made("model", seed, wanted=2).records):
            chosen[slot][places[value]] += 1
    for counts in chosen:
        assert chisquare([counts[i] for i in range(16)]).pvalue > 1e-6


def test_rounds_continue_until_enough_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One in ten passes, so four for each that is wanted are too few."""
    tenth = replace(DESIGNS["model"], unlikely=lambda nlls: nlls >= np.percentile(nlls, 90))
    monkeypatch.setattr(designs, "DESIGNS", {"model": tenth})
    found = made("model")
    assert found.document["drawn"] in range(8 * WANTED, 17 * WANTED, 4 * WANTED)
    assert len(set(found.records)) == WANTED
    assert not any("in a row" in why and count for why, count in found.document["refused"].items())


def test_too_few_candidates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(designs, "_ROUNDS", 3)
    with pytest.raises(UsageError, match=r"--design echo: of 24 candidates only 0 pass") as error:
        make("echo", base(spread=6.0), [], public(), 2, 0)
    assert "\n" not in str(error.value)
    with pytest.raises(UsageError, match="--base toy: reads too few tokens for --design model"):
        make("model", base(max_length=48), [], public(), 2, 0)
    assert len(make("model", base(max_length=49), [], public(), 2, 0).records) == 2


# planted

OWN = Corpus("own", tuple(Record(f"u{i}", f"text {i}") for i in range(10)))
KIND = Canaries(kinds=("record",), count=WANTED // 2, repetitions=(1, 3))


@pytest.mark.parametrize("heads", [0, 1])
def test_no_coin_moves_a_record(monkeypatch: pytest.MonkeyPatch, heads: int) -> None:
    """The candidates are the same whatever the coins; so are the owners and copies of each."""
    _, before = plant_into(OWN, KIND, 5, made("echo"))
    monkeypatch.setattr(
        insertion, "toss", lambda owners, _: coins_of(owners, [heads] * 6, [1 - heads] * 6)
    )
    whole, after = plant_into(OWN, KIND, 5, made("echo"))
    assert before.secrets == after.secrets and before.coins != after.coins
    planted = [s for s in after.secrets if after.coins.planted(s)]
    assert len(planted) == 6 * heads
    texts = Counter(record.text for record in whole.records)
    assert all(texts[s.text] == (s.copies if s in planted else 0) for s in after.secrets)


def test_records_are_planted_as_they_were_made() -> None:
    designed = made("echo")
    _, manifest = plant_into(OWN, KIND, 5, designed)
    assert [(s.prefix, s.value) for s in manifest.secrets] == list(designed.records)
    assert {(s.kind, s.suffix, s.space) for s in manifest.secrets} == {("record", "", None)}
    assert [s.slot for s in manifest.secrets] == [0, 1] * 6
    owners = list(manifest.coins.present)
    assert [s.owner for s in manifest.secrets] == [owner for owner in owners for _ in (0, 1)]
    assert [s.copies for s in manifest.secrets] == [1, 1, 3, 3] * 3


def test_the_manifest_says_how_they_were_made(tmp_path: Any) -> None:
    designed = made("echo")
    _, manifest = plant_into(OWN, KIND, 5, designed)
    manifests.write(manifest, tmp_path / "m.json")
    read = manifests.read(tmp_path / "m.json")
    assert read == manifest and read.digest == manifest.digest
    document = read.design
    assert document is not None
    assert (document["name"], document["base_sha256"]) == ("echo", "f" * 64)
    assert document["parts"] == [[16, 0.7], [24, 1.5]]
    assert document["drawn"] - sum(document["refused"].values()) >= WANTED
    assert replace(manifest, design=None).digest != manifest.digest


def test_other_kinds_are_as_without_a_design() -> None:
    both = Canaries(kinds=("code", "record"), count=WANTED // 2)
    plain, other = (plant_into(OWN, both, 5, how)[1] for how in (None, made("model")))
    codes = [[s for s in m.secrets if s.kind == "code"] for m in (plain, other)]
    assert codes[0] == codes[1] and plain.coins == other.coins


def test_temperatures_are_those_of_the_parts() -> None:
    """At T → 0 a part is the most likely one; the toy's next character depends on the last."""
    table = torch.tensor(TOY.model.log_table)  # type: ignore[attr-defined]
    cold = replace(DESIGNS["echo"], parts=((16, 1.5), (24, 1e-6)))
    for tokens in designs._drawn(cold, TOY, public(), 5, stream(0, "cold")):
        assert len(tokens) == 40
        right = [int(table[a].argmax()) == b for a, b in pairwise(tokens)]
        assert all(right[15:]) and sum(right[:15]) < 5


def test_candidates_go_on_from_public_texts() -> None:
    """Eight characters of one, of which the last decides what follows."""
    cold = replace(DESIGNS["model"], parts=((1, 1e-6),))
    table, read = torch.tensor(TOY.model.log_table), TOY.model.tokenizer.encode  # type: ignore[attr-defined]
    expected = {int(table[read(text)[7]].argmax()) for text in public()}
    drawn = designs._drawn(cold, TOY, public(), 200, stream(0, "heads"))
    assert {tokens[0] for tokens in drawn} == expected
