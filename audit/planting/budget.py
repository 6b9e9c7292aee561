"""Chooses how much is planted, so that the planted text stays a small share of what is learnt.

In this order, as far as each fits: coins of 100 people with one copy of all kinds; beacons of one
kind after the other, each with as many users as fit; more copies; more people; smaller beacons.
What a user gives is kept, whatever its share.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.randomness import stream
from audit.planting.beacons import VALUES, Tier
from audit.planting.copies import LEAST, MOST
from audit.planting.insertion import Canaries, words_learned
from audit.planting.kinds import plain_words
from audit.planting.own import FEWEST
from audit.planting.surroundings import surroundings
from audit.planting.templates import Template
from audit.results.words import percent

SHARE = 0.15  # of all tokens after planting
USERS = (256, 128, 64, 32, 16)  # of a beacon
UNDER_A_GUARANTEE = 128  # users of a beacon that a training under a guarantee of users may show
_A_WORD = 1.5  # tokens
_PEOPLE = (500, 400, 300, 200, 150)
_DROPPED = ("name", "id", "record")  # kinds that give way to coins, the first one first
_LIT = ("code", "id", "record", "name")  # kinds that have beacons, the first one first
_DRAWS = 100  # texts of a kind, of which the longest decides about the length of a copy


@dataclass(frozen=True)
class Budget:
    """tokens: of the corpus. a_copy: of a planted record, on average. share: the most of all."""

    tokens: float
    a_copy: float
    share: float = SHARE

    @property
    def copies(self) -> float:
        """The number of planted records that fit."""
        return self.tokens * self.share / (1 - self.share) / self.a_copy

    def fits(self, canaries: Canaries) -> bool:
        return canaries.expected_copies <= self.copies

    def first(self, canaries: Canaries, options: Iterable[Canaries]) -> Canaries:
        """Return the first option that fits; without one, the canaries as they are."""
        return next((one for one in options if self.fits(one)), canaries)

    def remedy(self, copies: float) -> str:
        """State what makes room for so many copies."""
        planted = copies * self.a_copy
        tokens = planted * (1 - self.share) / self.share - self.tokens
        unit = 10 ** max(0, math.floor(math.log10(max(tokens, 1))) - 1)
        more = math.ceil(tokens / unit) * unit
        share = math.ceil(100 * planted / (planted + self.tokens)) / 100
        return f"{more:,} tokens of text more" + (f", or --share {share:g}" if share < 1 else "")


def budget_of(corpus: Corpus, canaries: Canaries, share: float) -> Budget:
    """Count the words of a corpus, and estimate those of a copy. Raises UsageError."""
    if not 0 < share < 1:
        raise UsageError(f"--share {share:g}: is a share of all tokens, such as {SHARE}")
    words = words_learned(corpus.records)
    letters = sum(map(len, plain_words())) / len(plain_words()) + 1
    texts = [
        _texts(kind, canaries.templates.get(kind), canaries.pattern) for kind in canaries.kinds
    ]
    length = (LEAST + MOST) / 2 * max(len(text) for some in texts for text in some)
    # a text, words up to the length, and half of the last word, which runs over it
    copies = [[len(t.split()) + (length - len(t)) / letters + 0.5 for t in some] for some in texts]
    of_a_copy = max(sum(some) / len(some) for some in copies)
    return Budget(_A_WORD * words, _A_WORD * of_a_copy, share)


@lru_cache(maxsize=64)
def _texts(kind: str, template: Template | None, pattern: str) -> list[str]:
    texts = []
    for seed in range(_DRAWS):
        around = surroundings(kind, seed, template, pattern)
        value = around.space.draw(stream(seed, "planting", "length"))
        texts.append(f"{around.words.prefix}{value}{around.words.suffix}")
    return texts


def within(
    budget: Budget,
    asked: Canaries,
    given: Collection[str],
    lit: Sequence[str],
    first: str = "",
) -> Canaries:
    """Choose what is not given, within the budget.

    given: the fields of `asked` that a user gave. lit: kinds that may have beacons.
    first: the one of them whose beacons go before all others.
    """
    chosen = asked if "repetitions" in given else replace(asked, repetitions=(1,))
    if not {"kinds", "count"} & set(given):
        for kind in _DROPPED:
            if not budget.fits(chosen) and len(chosen.kinds) > 1 and kind not in chosen.templates:
                kinds = tuple(other for other in chosen.kinds if other != kind)
                chosen = replace(chosen, kinds=kinds)
    if "count" not in given and not budget.fits(chosen):
        most = int(budget.copies * chosen.count / chosen.expected_copies)
        chosen = replace(chosen, count=max(2, most))
    for kind in sorted(set(lit) & set(chosen.kinds), key=lambda k: (k != first, _place(k), k)):
        chosen = budget.first(chosen, (_lit(chosen, Tier(kind, users)) for users in USERS))
    if "repetitions" not in given:
        for tiers in ((1, 4), (1, 4, 16)):
            chosen = budget.first(chosen, [replace(chosen, repetitions=tiers)])
    if "count" not in given and chosen.count >= FEWEST:
        chosen = budget.first(chosen, (replace(chosen, count=people) for people in _PEOPLE))
    for tier in chosen.beacons:
        smaller = tier.users // 4
        if smaller >= USERS[-1]:
            chosen = budget.first(chosen, [_lit(chosen, Tier(tier.kind, smaller))])
    return chosen


def _place(kind: str) -> int:
    return _LIT.index(kind) if kind in _LIT else len(_LIT)


def _lit(canaries: Canaries, tier: Tier) -> Canaries:
    return replace(canaries, beacons=(*canaries.beacons, tier))


def notes(
    budget: Budget, asked: Canaries, chosen: Canaries, records: int, with_beacons: bool
) -> list[str]:
    """State what cannot be earned with what is planted, and the remedy."""
    lines = []
    if asked.kinds != chosen.kinds:
        dropped = [kind for kind in asked.kinds if kind not in chosen.kinds]
        all_kinds = replace(asked, repetitions=(1,)).expected_copies
        lines.append(f"not planted: {', '.join(dropped)}; they need {budget.remedy(all_kinds)}")
    if chosen.count < FEWEST:
        enough = replace(chosen, count=FEWEST, beacons=())
        remedy = f"{budget.remedy(enough.expected_copies)}, or " if not budget.fits(enough) else ""
        lines.append(
            f"with {records:,} records and {chosen.count} people hardly any run can end in "
            f'"no leak found"; leaks will still be found. For that it needs {FEWEST} people: '
            f"{remedy}--count {FEWEST}"
        )
    if not with_beacons:
        lines.append(
            'no beacons: an endpoint cannot earn "no leak found"; have the weights and a training '
            "file at hand"
        )
    elif not chosen.beacons:
        least = chosen.expected_copies + VALUES * USERS[-1]
        lines.append(
            f'no beacons fit: an endpoint cannot earn "no leak found"; {budget.remedy(least)}'
        )
    elif max(tier.users for tier in chosen.beacons) < UNDER_A_GUARANTEE:
        least = replace(chosen, beacons=()).expected_copies + VALUES * UNDER_A_GUARANTEE
        lines.append(
            f"beacons have {max(t.users for t in chosen.beacons)} users, too few to be seen under "
            f"a guarantee of users; {UNDER_A_GUARANTEE} need {budget.remedy(least)}"
        )
    if not budget.fits(chosen):
        lines.append(
            f"planted text is more than {percent(budget.share)} of all, so it changes what the "
            "model learns; plant fewer"
        )
    return lines
