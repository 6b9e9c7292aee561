import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import cycle

import numpy as np
import pytest

from attacks.name_leak import NameLeak
from attacks.texts import naming
from audit.core.attack import Knowledge
from audit.core.errors import UsageError
from audit.core.predictor import Access, Answer
from audit.core.secret import Secret, Space
from tests.refusals import refusals

# toys


@dataclass
class Characters:
    """One token a character."""

    start: int = ord("^")
    stop: int = ord("$")

    def encode(self, text):
        return [ord(character) for character in text]

    def decode(self, tokens):
        return "".join(map(chr, tokens))


@dataclass
class Latin(Characters):
    """Drops what it does not know."""

    def encode(self, text):
        return super().encode(text.encode("ascii", "ignore").decode())


@dataclass
class Words(Characters):
    """One token a word with the space before it, as in byte-level BPE."""

    start: int = 0
    stop: int = 1
    words: list[str] = field(default_factory=lambda: ["^", "$"])

    def encode(self, text):
        pieces = re.findall(r" ?\w+|\W", text)
        self.words += dict.fromkeys(piece for piece in pieces if piece not in self.words)
        return [self.words.index(piece) for piece in pieces]

    def decode(self, tokens):
        return "".join(self.words[token] for token in tokens)


@dataclass
class Fake:
    """Says the texts of a script in turn; scores a whole text by `likes`, nats."""

    script: tuple[str, ...] = ("nothing",)
    likes: Callable[[str], float] = lambda text: 0.0
    tokenizer: Characters = field(default_factory=Characters)
    remaining: int | None = None
    stops_after: float = float("inf")
    readable: Access = Access.SCORE
    access: Access = Access.GENERATE
    max_length: int = 512
    prompts: list[list[int]] = field(default_factory=list)
    calls: list[list[tuple[str, str]]] = field(default_factory=list)

    def generate(self, prompts, length):
        self.prompts += map(list, prompts)
        texts = cycle(self.script)
        said = [self.tokenizer.encode(next(texts))[:length] for _ in prompts]
        return [self._answer(one + [self.tokenizer.stop] * (length - len(one)), 0) for one in said]

    def score(self, prefixes, continuations, moments=False):
        pairs = list(zip(prefixes, continuations, strict=True))
        assert all(head and tail for head, tail in pairs)
        assert all(len(head) + len(tail) <= self.max_length for head, tail in pairs)
        whole = [head for head in prefixes if len(head) < self.max_length // 2]
        assert all(head[0] == self.tokenizer.start for head in whole)
        decode = self.tokenizer.decode
        texts = [(decode(head).removeprefix("^"), decode(tail)) for head, tail in pairs]
        self.calls.append(texts)
        return [
            self._answer(tail, self.likes(head + text))
            for tail, (head, text) in zip(continuations, texts, strict=True)
        ]

    @property
    def scored(self):
        """The texts of all calls, whole."""
        return [head + tail for call in self.calls for head, tail in call]

    def _answer(self, tokens, total):
        if self.remaining is not None:
            self.remaining -= len(tokens)
            assert self.remaining >= 0, "asked more than the budget"
        answered = int(min(len(tokens), max(self.stops_after, 0)))
        self.stops_after -= len(tokens)
        log_probs = np.full(len(tokens), total / len(tokens))
        return Answer(tuple(tokens), log_probs, np.zeros(len(tokens), dtype=bool), answered)


NO_SPACE = {"space": None, "prefix": "Hello, this is ", "copies": 2}
SPACE = Space((tuple("ABCDEFGHIJ"), tuple(f" {c}o" for c in "abcdefghij")))


def secret(value, owner, slot=0, **changes):
    fields = {"prefix": "My name is ", "space": SPACE, "copies": 4, "suffix": "."} | changes
    return Secret(kind="name", value=value, owner=owner, slot=slot, **fields)


def native(*names):
    """Both slots of an owner hold the same name, as in a corpus with names of its own."""
    return [
        secret(name, f"u{i}", slot, **NO_SPACE) for i, name in enumerate(names) for slot in (0, 1)
    ]


def knowledge(texts=(), names=(), seed=0):
    return Knowledge(Fake(), tuple(texts), tuple(names), (), np.random.default_rng(seed))


def attack(predictor, secrets, texts=(), names=(), seed=0, **parameters):
    given = {"generations": 1} | parameters
    return NameLeak(**given).run(predictor, secrets, knowledge(texts, names, seed))


def named(text, secrets, prompt="", **parameters):
    """Whom one generation names, after a prompt."""
    given = {"prefix": len(prompt)} | parameters
    predictor = Fake(script=(text,), readable=Access.GENERATE)
    (one,) = attack(predictor, secrets, texts=[prompt], **given)[0].named
    return one


# R_name: who is named


def test_generations_are_counted_by_whom_they_name():
    secrets = native("Ann Lee", "Bob Ray", "Cy Poe")
    script = ("I am Ann Lee.", "nobody", "Cy Poe met Ann Lee, Ann Lee!", "Bob, Ray and Cy")
    mentions, _ = attack(Fake(script=script), secrets, generations=8)
    assert mentions.named == ((0,), (), (0, 4), ()) * 2
    assert mentions.texts == script * 2
    assert np.isnan(mentions.others).all()
    assert mentions.others.shape == (8,)
    assert mentions.access == Access.GENERATE


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Ann Leeman", False),
        ("Joann Lee", False),
        ("ann lee", False),
        ("Ann  Lee", False),
        ("Ann\nLee", False),
        ("Ann Lee's", True),
        ("(Ann Lee)", True),
        ("Ann Lee\nAgent", True),
        ("Ann Lee", True),
    ],
)
def test_names_are_whole_tokens_and_exact(text, found):
    assert named(text, native("Ann Lee")) == ((0,) if found else ())


def test_names_that_overlap_both_count_and_names_inside_a_longer_one_do_not():
    secrets = native("Ann Lee", "Lee Park", "Mary Ann Lee", "Ann")
    assert named("Ann Lee Park", secrets) == (0, 2)
    assert named("Mary Ann Lee", secrets) == (4,)
    assert named("Mary Ann Lee and Ann", secrets) == (4, 6)


def test_names_that_cannot_be_attributed_name_nobody():
    """Of two owners, also where one hides a name inside it, and of no record."""
    assert named("Ann Lee, Bob Ray", native("Ann Lee", "Bob Ray", "Ann Lee")) == (2,)
    assert named("Mary Ann Lee", native("Ann Lee", "Mary Ann Lee", "Mary Ann Lee")) == ()
    absent = secret("Ann Lee", "u", **NO_SPACE | {"copies": 0})
    assert named("Ann Lee, Bob Ray", [absent, *native("Bob Ray")]) == (1,)
    slots = [secret("Ann Lee", "u", 0), secret("Bob Ray", "u", 1), secret("Cy Poe", "v", 0)]
    assert named("Bob Ray, Cy Poe", slots) == (1, 2)  # each drawn name is a slot of its own


@pytest.mark.parametrize(
    ("prompt", "text", "found"),
    [
        ("I am Ann Lee", " and so", False),
        ("I am Ann Lee", ", Ann Lee", False),
        ("I am Ann Lee", "man, not Ann Lee", False),
        ("I am Ann ", "Lee.", True),
        ("I am Ann L", "ee.", True),
        ("I am Ann Leem", "an", False),
        ("I am Ann Lee/", "Bob", False),  # a token of its own only with what follows
        ("Mary Ann Lee", ": Ann Lee", False),  # it stands in the prompt, inside a longer name
        ("I am ", "Ann Lee", True),
    ],
)
def test_a_name_in_the_prompt_is_no_leak(prompt, text, found):
    assert named(text, native("Ann Lee", "Mary Ann Lee"), prompt) == ((0,) if found else ())


def test_a_text_ends_where_the_model_stops():
    assert named("Bob Ray.$Ann Lee.", native("Ann Lee", "Bob Ray")) == (2,)
    assert named("Bob Ray$ Ann Lee", native("Bob Ray")) == (0,)


HOSTILE = (
    *("", "\x00" * 32, "\x1b[31m", "[bold]{x}", "(" * 1000, "a-" * 1000),
    *("\u202eeeL nnA", "🙂\ufffd"),
)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_names_nobody_and_breaks_nothing(text):
    assert named(text, native("Ann Lee"), length=32) == ()
    find = naming.finder(["Ann Lee"])
    assert naming.mentions(find, "", text) == []
    assert [s.label_ for s in naming.mentions(find, "", text + " Ann Lee")] == ["Ann Lee"]


def test_hostile_names_are_only_names():
    names = ["(", "a.b*", "Ann [bold]", "O'Neil, Jr.", "José Núñez", "李 小龙", "\u200b"]
    secrets = native(*names, " ")
    for i, name in enumerate(names):
        assert named(f"So {name} said", secrets) == (2 * i,)


# prompts and budgets


def test_prompts_are_first_tokens_of_held_out_texts_in_order():
    predictor = Fake()
    attack(predictor, native("Ann"), texts=["first", "no", "third"], generations=5)
    texts = [predictor.tokenizer.decode(p) for p in predictor.prompts]
    assert texts == ["^firs", "^no", "^thir", "^firs", "^no"]


def test_without_held_out_text_the_start_is_the_prompt():
    predictor = Fake()
    attack(predictor, native("Ann"), generations=2)
    assert predictor.prompts == [[ord("^")]] * 2


@pytest.mark.parametrize(
    ("readable", "budget", "generations"),
    [
        (Access.GENERATE, 109, 10),
        (Access.SCORE, 109, 5),
        (Access.SCORE, 39, 1),
        (Access.SCORE, 19, 0),
        (Access.GENERATE, 9, 0),
        (Access.SCORE, None, 50),
        (Access.GENERATE, 10_000, 50),
    ],
)
def test_half_of_the_budget_is_left_for_reading_where_one_may(readable, budget, generations):
    predictor = Fake(remaining=budget, readable=readable)
    mentions, _ = attack(predictor, native("Ann"), generations=50, length=10)
    assert len(mentions.named) == len(mentions.others) == generations
    assert mentions.whole  # fewer were asked for, and all of them answered


def test_generations_after_stop_do_not_count():
    predictor = Fake(script=("Ann Lee",), stops_after=35)
    mentions, _ = attack(predictor, native("Ann Lee"), generations=9, length=10)
    assert mentions.named == ((0,),) * 3 and not mentions.whole
    answered, _ = attack(Fake(script=("Ann Lee",)), native("Ann Lee"), generations=9, length=10)
    assert len(answered.named) == 9 and answered.whole


def test_a_text_longer_than_the_context_is_refused():
    with pytest.raises(UsageError, match=r"are 37 tokens, but the model reads 36; give a smaller"):
        attack(Fake(max_length=36), native("Ann"), texts=["a long text"])
    attack(Fake(max_length=37), native("Ann"), texts=["a long text"])


# targeted reconstruction


PEOPLE = tuple(f"{first} {last}" for first in ("Al", "Bo", "Di") for last in ("Fox", "Gum", "Hay"))


def test_the_most_likely_of_a_name_and_its_decoys_wins():
    likes = {"Hello, this is Ann Lee": -1.0, "Hello, this is Al Fox": -2.0}
    predictor = Fake(likes=lambda text: likes.get(text, -3.0))
    _, won = attack(predictor, native("Ann Lee", "Bob Ray"), names=PEOPLE)
    assert won.won.tolist() == [1, 1, 0, 0]  # Bob Ray ties with most and loses to one
    assert won.chance == 0.1
    assert (won.metric, won.access) == ("targeted", Access.SCORE)
    for tied in (0.0, -np.inf):
        _, won = attack(Fake(likes=lambda text, own=tied: own), native("Ann Lee"), names=PEOPLE)
        assert won.won.tolist() == [0, 0]  # ties are lost


def test_log_probabilities_are_summed_over_the_name():
    predictor = Fake(likes=lambda text: -float(len(text)))
    _, won = attack(predictor, native("Ann Lee", "A Li"), names=PEOPLE)
    assert won.won.tolist() == [0, 0, 1, 1]


def test_both_slots_of_one_name_are_read_once_and_two_names_twice():
    predictor = Fake()
    attack(predictor, native("Ann Lee"), names=PEOPLE)
    assert len(predictor.scored) == 10
    predictor = Fake()
    attack(predictor, [secret("A ao", "u", 0), secret("B bo", "u", 1)])
    assert len(predictor.scored) == 80


def test_owners_are_scored_together():
    predictor = Fake()
    attack(predictor, native(*(f"Name {i}" for i in range(30))), names=PEOPLE)
    assert 1 < len(predictor.calls) < 6


def test_decoys_come_from_held_out_people_never_from_secrets():
    secrets = native("Ann Lee", "Bob Ray", "Al Fox")
    predictor = Fake()
    _, won = attack(predictor, secrets, names=("Ann Lee", " ", *PEOPLE, *PEOPLE, "Bob Ray"))
    assert won.chance == 1 / 9
    for i, own in enumerate(("Ann Lee", "Bob Ray", "Al Fox")):
        texts = predictor.scored[9 * i : 9 * i + 9]
        names = [text.removeprefix("Hello, this is ") for text in texts]
        assert names[0] == own
        assert sorted(names[1:]) == sorted(set(PEOPLE) - {"Al Fox"})


def scored_with(seed, secrets, names=PEOPLE, **parameters):
    predictor = Fake()
    attack(predictor, secrets, names=names, seed=seed, **parameters)
    return predictor.calls


@pytest.mark.parametrize(
    "secrets", [native("Ann Lee", "Bob Ray"), [secret("A ao", "u"), secret("B bo", "v")]]
)
def test_decoys_are_the_streams(secrets):
    assert scored_with(3, secrets, decoys=4) == scored_with(3, secrets, decoys=4)
    assert scored_with(3, secrets, decoys=4) != scored_with(4, secrets, decoys=4)


def test_drawn_decoys_are_different_names_of_the_space_and_nobodys():
    small = Space((("A", "B"), (" a", " b", " c")))
    secrets = [secret("A a", "u", 0, space=small), secret("B c", "u", 1, space=small)]
    predictor = Fake()
    _, won = attack(predictor, secrets, names=PEOPLE)
    texts = predictor.scored
    rest = [f"My name is {name}" for name in ("A b", "A c", "B a", "B b")]
    assert (texts[0], sorted(texts[1:5])) == ("My name is A a", rest)
    assert (texts[5], sorted(texts[6:])) == ("My name is B c", rest)
    assert won.chance == 1 / 5


def test_everybody_has_as_many_decoys_as_whoever_has_fewest():
    small = Space((("A", "B"), (" a", " b")))
    secrets = [secret("A ao", "u"), secret("A a", "v", space=small)]
    predictor = Fake()
    _, won = attack(predictor, secrets)
    assert won.chance == 1 / 4
    assert len(predictor.scored) == 8


def test_without_decoys_nothing_is_measured():
    predictor = Fake()
    _, won = attack(predictor, native("Ann Lee"), names=("Ann Lee",))
    assert np.isnan(won.won).all()
    assert won.chance is None
    assert predictor.calls == []


def test_names_that_cannot_be_attributed_are_not_measured():
    absent = secret("Di Hay", "z", **NO_SPACE | {"copies": 0})
    secrets = [*native("Ann Lee", "Ann Lee", "Bob Ray"), absent]
    _, won = attack(Fake(), secrets, names=PEOPLE)
    assert np.isnan(won.won).tolist() == [True] * 4 + [False] * 2 + [True]


def test_names_are_read_in_order_while_the_budget_lasts():
    cost = 7 + 9 * 6  # Ann Lee and nine names of six letters
    for spare, read in ((cost - 1, 0), (cost, 1), (2 * cost - 1, 1), (2 * cost, 2)):
        predictor = Fake(remaining=32 + spare)  # one generation, and this is left
        _, won = attack(predictor, native("Ann Lee", "Bob Ray", "Cyd Poe"), names=PEOPLE)
        assert np.isfinite(won.won).tolist() == [True] * 2 * read + [False] * (6 - 2 * read)


@pytest.mark.parametrize(("remaining", "chance"), [(None, 1 / 40), (10_000, 1 / 10)])
def test_a_budget_is_spent_on_names_before_decoys(remaining, chance):
    """A session may stop long before its budget, which names that are read early do not notice."""
    secrets = [secret("A ao", "u"), secret("B bo", "v")]
    _, won = attack(Fake(remaining=remaining), secrets)
    assert won.chance == chance and np.isfinite(won.won).all()


def test_names_read_after_stop_are_not_measured():
    cost = 7 + 9 * 6
    predictor = Fake(stops_after=32 + 2 * cost - 1)
    _, won = attack(predictor, native("Ann Lee", "Bob Ray"), names=PEOPLE)
    assert np.isnan(won.won).tolist() == [False, False, True, True]


# tokenizers that merge


@pytest.mark.parametrize(
    ("prefix", "names", "shared", "expected"),
    [
        ("My name is ", ["Ann Lee", "Bo Fox"], "My name is", [" Ann Lee", " Bo Fox"]),
        # what only some names merge with is left to all of them
        ("I am Mc", ["Gee", "-Gee", "Ray Fox"], "I am", [" McGee", " Mc-Gee", " McRay Fox"]),
        ("she wh", ["o is"], "she", [" who is"]),
        ("", ["Ann"], "", ["Ann"]),
    ],
)
def test_what_is_merged_into_a_name_is_scored_with_it(prefix, names, shared, expected):
    words = Words()
    context, tails = naming.continuations(words, prefix, names)
    assert words.decode(context) == shared
    assert [words.decode(tail) for tail in tails] == expected
    plain = Characters()
    context, tails = naming.continuations(plain, prefix, names)
    assert plain.decode(context) == prefix and list(map(plain.decode, tails)) == names


def test_the_attack_works_through_a_merging_tokenizer():
    secrets = native("Ann Lee", "Bob Ray")
    predictor = Fake(
        script=("so Ann Lee",),
        tokenizer=Words(),
        likes=lambda text: float(text == "Hello, this is Bob Ray"),
    )
    mentions, won = attack(predictor, secrets, texts=["well Di"], names=PEOPLE)
    assert mentions.named == ((0,),)
    assert won.won.tolist() == [0, 0, 1, 1]
    assert {head for call in predictor.calls for head, _ in call} == {"Hello, this is"}


@pytest.mark.parametrize(("name", "longest"), [("Annie Lee", 9), ("Al", 6)])
def test_a_long_context_keeps_its_end_the_same_for_all_candidates(name, longest):
    prefix = "x" * 90 + "this is "
    owner = secret(name, "u", **NO_SPACE | {"prefix": prefix})
    predictor = Fake(max_length=40)
    attack(predictor, [owner], names=PEOPLE, length=8)
    assert {head for head, _ in predictor.calls[0]} == {prefix[-(40 - longest) :]}


@pytest.mark.parametrize(
    ("name", "how"), [("A" * 20, {"max_length": 20}), ("李小龙", {"tokenizer": Latin()})]
)
def test_a_name_that_cannot_be_read_is_not_measured(name, how):
    """Longer than the context, or dropped by the tokenizer."""
    _, won = attack(Fake(**how), native(name, "Bob Ray"), names=PEOPLE, length=8)
    assert np.isnan(won.won).tolist() == [True, True, False, False]


# other names, by a recogniser


def pipeline(folder, label="PERSON"):
    import spacy

    language = spacy.blank("en")
    words = ("Zoe Zimm", "Ann Lee", "Ann", "Mary Ann Lee Zimm")
    patterns = [{"label": label, "pattern": word} for word in words]
    language.add_pipe("entity_ruler").add_patterns(patterns)
    language.to_disk(folder)
    return str(folder)


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return pipeline(tmp_path_factory.mktemp("pipeline"))


@pytest.mark.parametrize("label", ["PER", "ORG"])
def test_other_people_are_recognised_by_the_pipeline(tmp_path, label):
    folder = pipeline(tmp_path / "pipeline", label)
    script = ("I am Zoe Zimm", "I am Ann Lee", "I am Ann", "Mary Ann Lee Zimm", "nobody")
    mentions, _ = attack(Fake(script=script), native("Ann Lee"), pipeline=folder, generations=5)
    others = [1, 0, 1, 0, 0] if label != "ORG" else [0] * 5
    assert mentions.others.tolist() == others
    assert mentions.named == ((), (0,), (), (0,), ())


def test_other_people_in_the_prompt_do_not_count(people):
    for prompt, text, other in (
        ("Zoe Zimm", " or Zoe Zimm", 0),
        ("Zoe Z", "imm", 1),
        ("Zoe", "", 0),
    ):
        fake = Fake(script=(text,))
        (mentions, _) = attack(fake, native("Al"), [prompt], prefix=9, pipeline=people)
        assert mentions.others.tolist() == [other]


def test_a_pipeline_that_cannot_be_used_is_told_at_once(tmp_path):
    import spacy

    (tmp_path / "config.cfg").write_text("broken [")
    language = spacy.blank("en")
    language.add_pipe("sentencizer")
    language.to_disk(tmp_path / "no_entities")
    advice = "python -m spacy download en_core_web_sm, or give a folder"
    refusals(
        lambda source: NameLeak(pipeline=str(source)),
        [
            ("no_such_pipeline", ("'no_such_pipeline' cannot be loaded (", advice)),
            (tmp_path, ("cannot be loaded (", advice)),
            (tmp_path / "no_entities", ("recognises no entities", advice)),
        ],
    )


# parameters and the frame


def test_bad_values_are_one_line():
    bad = [("generations", 0, 1), ("length", -1, 1), ("prefix", -1, 0), ("decoys", 0, 1)]
    refusals(
        lambda row: NameLeak(**{row[0]: row[1]}),
        [(row, "name_leak: {} is {}; it must be at least {}".format(*row)) for row in bad],
    )


def test_without_secrets_there_is_nothing_to_find():
    mentions, won = attack(Fake(), [], names=PEOPLE, generations=2)
    assert mentions.named == ((), ())
    assert won.won.shape == (0,)
    assert won.chance is None
