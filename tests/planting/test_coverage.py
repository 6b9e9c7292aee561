"""Whether canaries reached the training: counted in streams whose every copy's fate is known."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from audit.core.corpus import Corpus, Record
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.model import TextTokenizer
from audit.core.secret import Coins, Secret
from audit.models.loading import describe, load_tokenizer
from audit.planting import coverage, training_rows
from audit.planting.coverage import Coverage
from audit.planting.insertion import Canaries, plant_into
from audit.planting.training_rows import TokenRow
from tests.refusals import refusals


@dataclass
class Pieces:
    """A tokenizer that has cut its texts anywhere: each token is the piece it stands for."""

    known: list[str]
    start: int = 0
    stop: int = 0

    def encode(self, text: str) -> list[int]:
        return self.cut([text])

    def cut(self, pieces: Sequence[str]) -> list[int]:
        """Tokens of these very pieces."""
        first = len(self.known)
        self.known += pieces
        return [*range(first, len(self.known))]

    def decode(self, tokens: Sequence[int]) -> str:
        return "".join(self.known[token] for token in tokens)


def secret(kind: str, prefix: str, value: str, owner: str, copies: int = 1) -> Secret:
    return Secret(kind, prefix, value, ".", None, copies, owner, 0)


def coins(*secrets: Secret, absent: Sequence[str] = ()) -> Coins:
    owners = [s.owner for s in secrets]
    return Coins({o: o not in absent for o in owners}, dict.fromkeys(owners, 0))


CODES = [
    secret("code", "My code is #", value, f"u{value}") for value in ("11234", "11299", "40000")
]
NAMES = [secret("name", "My name is ", value, f"n{value}") for value in ("Ann Lee", "Ann Lind")]
SAID = [secret("record", "", text, f"r{text}") for text in ("red green blue", "red grey tea")]
ALL = [*CODES, *NAMES, *SAID]


def counted(
    rows: Sequence[TokenRow], secrets: Sequence[Secret], tokenizer: Pieces
) -> dict[str, Coverage]:
    found = coverage.by_kind(rows, secrets, coins(*secrets), tokenizer)
    return {reach.kind: reach for reach in found}


def states(reach: Coverage) -> tuple[int, int, int, int]:
    return reach.trained, reach.masked, reach.cut, reach.missing


filler = st.text(alphabet="abcxyz ,.#1", max_size=12)
cuts = st.lists(st.integers(1, 5), min_size=1, max_size=8)


def pieces(text: str, sizes: Sequence[int]) -> list[str]:
    """The text in pieces of these sizes, taken in turn."""
    ends = [0]
    while ends[-1] < len(text):
        ends.append(ends[-1] + sizes[len(ends) % len(sizes)])
    return [text[a:b] for a, b in pairwise(ends)]


@st.composite
def fates(draw: st.DrawFn) -> list[tuple[Secret, str]]:
    return [(s, draw(st.sampled_from(("trained", "masked", "cut", "missing")))) for s in ALL]


@given(fates(), cuts, st.data())
def test_every_copys_fate_is_counted(
    drawn: list[tuple[Secret, str]], sizes: list[int], data: st.DataObject
) -> None:
    """A row a record: kept, masked where one token of the value is, cut behind the beginning of the
    value, or dropped; tokens cut anywhere."""
    tokenizer, rows = Pieces([]), []
    for s, fate in drawn:
        before, after = data.draw(filler), (s.suffix or ".") + data.draw(filler)
        head = len(before) + len(s.prefix)
        tokens = pieces(before + s.prefix + s.value + after, sizes)
        if fate == "missing":
            tokens = pieces(before + after, sizes)
        if fate == "cut":
            least = head + (1 if s.prefix else 8)
            end = data.draw(st.integers(least, head + len(s.value) - 1))
            tokens = [*pieces((before + s.prefix + s.value)[:end], sizes)]
        ends = [*accumulate(map(len, tokens))]
        holding = [
            i for i, e in enumerate(ends) if head < e and e - len(tokens[i]) < head + len(s.value)
        ]
        learned = [True] * len(tokens)
        if fate == "masked":
            learned[data.draw(st.sampled_from(holding))] = False
        elif fate == "trained":  # what is around the value may be masked
            learned = [i in holding or data.draw(st.booleans()) for i in range(len(tokens))]
        rows.append(TokenRow(tuple(tokenizer.cut(tokens)), tuple(learned)))
        rows.append(
            TokenRow(tuple(tokenizer.cut(["~"])), (True,))
        )  # so that none goes on in the next
    found = counted(rows, ALL, tokenizer)
    for kind, reach in found.items():
        became = Counter(fate for s, fate in drawn if s.kind == kind)
        assert states(reach) == tuple(became[f] for f in ("trained", "masked", "cut", "missing"))
        assert reach.copies == sum(became.values())
        assert reach.whole == (became["trained"] == reach.copies)


@given(st.integers(24, 60), cuts, st.lists(st.sampled_from(ALL), max_size=30), filler, st.data())
def test_packed_streams(
    width: int, sizes: list[int], order: list[Secret], between: str, data: st.DataObject
) -> None:
    """Records one after the other, in rows of so many tokens: what lies in one row is trained on,
    what is split over two is cut, wherever the split is."""
    stream, spans = "", []
    for s in order:
        stream += between + "~"
        spans.append((len(stream), len(stream) + len(s.prefix + s.value), s))
        stream += s.text
    stream += "~"
    tokenizer = Pieces([])
    tokens = tokenizer.cut(pieces(stream, sizes))
    rows = [tuple(tokens[i : i + width]) for i in range(0, len(tokens), width)]
    borders = {0, *accumulate(len(tokenizer.decode(row)) for row in rows)}
    copies = Counter(order)
    secrets = [secret(s.kind, s.prefix, s.value, s.owner, n) for s, n in copies.items()]
    became: Counter[tuple[str, str]] = Counter()
    for low, high, s in spans:
        split = any(low < border < high for border in borders)
        became[s.kind, "cut" if split else "trained"] += 1
    found = counted([TokenRow(row, (True,) * len(row)) for row in rows], secrets, tokenizer)
    assert {kind: states(reach) for kind, reach in found.items()} == {
        kind: (became[kind, "trained"], 0, became[kind, "cut"], 0) for kind in found
    }
    reader = coverage.StreamReader(coverage.canaries(secrets, coins(*secrets)), tokenizer)
    for row in rows:
        reader.read(TokenRow(row, (True,) * len(row)))
    kept = counted(reader.with_canaries, secrets, tokenizer)  # all the others may be forgotten
    assert {kind: states(reach) for kind, reach in kept.items()} == {
        kind: states(reach) for kind, reach in found.items()
    }


def whole_rows(tokenizer: Pieces, *texts: str) -> list[TokenRow]:
    return [TokenRow((token,), (True,)) for token in tokenizer.cut(texts)]


TWINS = [secret("code", "My code is #", "11234", owner, 2) for owner in ("a", "b")]
ALIKE = [
    secret("name", "My name is ", value, value, copies)
    for value, copies in (("Ann Lee", 1), ("Ann Leeson", 2))
]
CODE, LONGER = "My code is #11234.", "My name is Ann Leeson."
COUNTED: list[tuple[str, list[str], list[Secret], dict[str, tuple[int, int, int, int]]]] = [
    ("a repeated one is no other", [CODE] * 3, CODES, {"code": (1, 0, 0, 2)}),
    ("two owners of one value", [CODE], TWINS, {"code": (1, 0, 0, 3)}),
    ("two owners, all copies", [CODE] * 4, TWINS, {"code": (4, 0, 0, 0)}),
    ("two owners, more", [CODE] * 9, TWINS, {"code": (4, 0, 0, 0)}),
    ("a beginning that several share", ["My code is #112", "~"], CODES, {"code": (0, 0, 1, 2)}),
    ("of like names the longer", [LONGER] * 2, ALIKE, {"name": (2, 0, 0, 1)}),
    ("whole, no half of the longer", ["My name is Ann Lee", "~"], ALIKE, {"name": (1, 0, 0, 2)}),
    (
        "what only begins alike, of which the first may have been one",
        ["My code is #1", "12x", "My code is #", "M", "red gre", "My code is #99999."],
        [*CODES, *SAID],
        {"record": (0, 0, 0, 2), "code": (0, 0, 1, 2)},
    ),
    (
        "a longer word or number",
        ["My code is #112349", "My name is Ann Leeway", "My name is Ann Lee, My code is #11234!"],
        [*CODES, *NAMES],
        {"code": (1, 0, 0, 2), "name": (1, 0, 0, 1)},
    ),
    (
        "no beginning where nothing is lost",
        [*(s.text for s in CODES), "My code is #1", "~"],
        CODES,
        {"code": (3, 0, 0, 0)},
    ),
]


def test_copies_are_counted_by_what_they_are() -> None:
    for name, texts, secrets, expected in COUNTED:
        tokenizer = Pieces([])
        found = counted(whole_rows(tokenizer, *texts), secrets, tokenizer)
        assert {kind: states(reach) for kind, reach in found.items()} == expected, name


def test_only_rows_that_bear_something_are_kept() -> None:
    """Both halves, also of a text that is split where nothing tells what it begins."""
    tokenizer = Pieces([])
    rows = whole_rows(tokenizer, "nothing", "so My c", "ode is #11234.", "My", "or", CODES[2].text)
    reader = coverage.StreamReader(coverage.canaries(CODES, coins(*CODES)), tokenizer)
    for row in rows:
        reader.read(row)
    assert reader.with_canaries == [rows[1], rows[2], rows[5]]


def test_several_in_one_row_and_twins_in_none() -> None:
    tokenizer = Pieces([])
    row = whole_rows(tokenizer, " ".join(s.text for s in ALL))
    found = coverage.by_kind(row, ALL, coins(*ALL, absent=["u40000", "rred grey tea"]), tokenizer)
    assert [(r.kind, r.copies, r.trained) for r in found] == [
        ("code", 2, 2), ("name", 2, 2), ("record", 1, 1),
    ]  # fmt: skip


def test_what_is_told() -> None:
    assert Coverage("code", 9, 9, 0, 0).sentence == "Of 9 planted code copies 9 were trained on"
    assert Coverage("code", 1900, 1000, 400, 300).sentence == (
        "Of 1,900 planted code copies 1,000 were trained on "
        "(400 masked from the loss, 300 cut off, 200 missing)"
    )


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return load_tokenizer(describe("embedded", EMBEDDED_FOLDER))


def test_tokens_across_the_edge_of_a_value(tokenizer: TextTokenizer) -> None:
    """`My name is ` ends with the space that the first token of the name begins with."""
    name = secret("name", "My name is ", "Ann Lee", "n")
    text = "鍵 naïve 🔑 My name is Ann Lee. Yes."
    tokens = tokenizer.encode(text)
    ends = [len(tokenizer.decode(tokens[: i + 1])) for i in range(len(tokens))]
    low = text.index("Ann")
    first = next(i for i, end in enumerate(ends) if end > low)
    last = next(i for i, end in enumerate(ends) if end >= low + len("Ann Lee"))
    assert tokenizer.decode(tokens[first : first + 1]).startswith(" ")
    for hidden, fate in (
        (first - 1, "trained"),
        (first, "masked"),
        (last, "masked"),
        (last + 1, "trained"),
    ):
        row = TokenRow(tuple(tokens), tuple(i != hidden for i in range(len(tokens))))
        (reach,) = coverage.by_kind([row], [name], coins(name), tokenizer)
        assert (reach.trained, reach.masked) == ((1, 0) if fate == "trained" else (0, 1))


def test_records_are_cut_at_the_context(tokenizer: TextTokenizer) -> None:
    code = secret("code", "My code is #", "11234", "u", copies=2)
    before = "word " * 40
    texts = [f"{code.text} {before}", f"{before}{code.text}"]
    length = len(tokenizer.encode(texts[1]))  # start + text + stop, the last of which is no input
    for context, cut in ((length + 1, False), (length - 1, False), (length - 2, True), (60, True)):
        rows = list(training_rows.of_texts(texts, tokenizer, context))
        assert max(len(row.tokens) for row in rows) <= context + 1
        (reach,) = coverage.by_kind(rows, [code], coins(code), tokenizer)
        assert (reach.trained, reach.whole) == ((1, False) if cut else (2, True))
        if context == length - 2:
            assert states(reach) == (1, 0, 1, 0)


def write(path: Path, *entries: object) -> Path:
    path.write_text("".join(f"{e if isinstance(e, str) else json.dumps(e)}\n" for e in entries))
    return path


def test_a_broken_training_file_is_named_by_line(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    path = tmp_path / "rows.jsonl"
    lines = (
        *("{", "[" * 100_000, "[1, 2]", '"text"', "null", '{"text": 5}', '{"labels": [1]}'),
        *('{"input_ids": 5}', '{"input_ids": ["a"]}', '{"input_ids": [[1, 2]]}'),
        *('{"input_ids": [1, 2], "labels": [1]}',),
        *('{"input_ids": [1], "attention_mask": [1, 1]}', '{"input_ids": [-1]}'),
        *('{"input_ids": [1e400]}', '{"input_ids": [99999999999]}'),
        '{"input_ids": [1, 2], "loss_mask": [1]}',
    )
    refusals(
        lambda line: list(
            training_rows.of_file(write(path, {"text": "fine"}, line), tokenizer, 256)
        ),
        [(line, f"{path}:2: ") for line in lines],
    )


def test_a_file_that_cannot_be_read(tmp_path: Path, tokenizer: TextTokenizer) -> None:
    (tmp_path / "binary").write_bytes(b'{"text": "\xff"}')
    for path in (tmp_path, tmp_path / "none.jsonl", tmp_path / "binary"):
        with pytest.raises(UsageError, match="cannot be read"):
            list(training_rows.of_file(path, tokenizer, 256))


@pytest.mark.slow
def test_a_long_stream_takes_seconds(tokenizer: TextTokenizer) -> None:
    """1,500 rows and 120 planted secrets: each row is read once, not once a secret."""
    own = Corpus("own", tuple(Record(f"u{i}", f"text {i} " + "of words " * 30) for i in range(400)))
    whole, manifest = plant_into(own, Canaries(count=60), seed=3)
    planted = [s for s in manifest.secrets if manifest.coins.planted(s)]
    assert len(planted) > 110
    rows = list(training_rows.of_texts([r.text for r in whole.records], tokenizer, 256))
    rows = rows * (1_500 // len(rows) + 1)
    began = time.process_time()
    found = coverage.by_kind(rows, manifest.secrets, manifest.coins, tokenizer)
    assert time.process_time() - began < 1.2
    assert len(rows) >= 1_500 and all(reach.whole for reach in found)


def test_copies_are_counted_in_plain_texts() -> None:
    """A longer number is another value; words behind a value are not."""
    planted = {text: coverage.Canary("code", 6, 2) for text in ("PIN is 123", "PIN is 1234")}
    texts = ["my PIN is 123. PIN is 123!", "PIN is 1234 and PIN is 12345", "pin is 123"]
    assert coverage.copies_in(texts, planted) == {"PIN is 123": 2, "PIN is 1234": 1}
    for goes_on, found in (("です。", 1), ("입니다.", 1), ("é", 0)):
        assert coverage.copies_in([f"PIN is 123{goes_on}"], planted)["PIN is 123"] == found
