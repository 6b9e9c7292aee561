"""Extraction: counts planted codes, and other short values, among generations of the release.

The experiment of SubMix (arXiv 2201.00971, section 4.2) samples g generations from the prompt
before the codes; a generation that equals a code is a hit. If the auditor can read probabilities,
the attack also gives
- the probability of each code per generation, for (n, p)-discoverable extraction (arXiv
  2410.19482),
- the most likely codes of all, by search,
- whether the first half of a record is continued with its second half (arXiv 2202.07646).
E-mail addresses, phone numbers, keys and values of a pattern are attacked as codes are, each kind
apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from attacks.search.prefix_tree import Tree, beam, search, tree_of
from attacks.search.reading import read
from attacks.texts.guesses import form_of, guess_in, kinds_of
from attacks.texts.naming import continuations
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Hits, Likelihoods, Successes
from audit.core.predictor import (
    Access,
    Given,
    Predictor,
    Tokenizer,
    affordable,
    continuation,
    is_chat,
)
from audit.core.rules import at_least, between, one_of
from audit.core.secret import CODE_LIKE, Secret


@dataclass(frozen=True)
class Extraction(Attack):
    """Samples generations from the prompt and counts those that equal a planted code.

    generations: number of generations g for each kind of value, fewer if the session's budget is
        too small; at least 1.
    searched: number of most likely codes to find with the remaining queries; at least 0.
    search: "best_first" finds exactly the most likely codes; "beam" needs fewer queries.
    budget: most prefixes that best_first opens before a beam takes over; at least 1.
    suffix: tokens of the second half of a record that must follow verbatim; at least 0, where 0
        skips records.
    """

    generations: Annotated[int, between(1, 1_000_000)] = 100
    searched: Annotated[int, at_least(0)] = 100
    search: Annotated[str, one_of("best_first", "beam")] = "best_first"
    budget: Annotated[int, at_least(1)] = 20_000
    suffix: Annotated[int, at_least(0)] = 50
    kinds = (*CODE_LIKE, "record")
    access = Access.GENERATE

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        kinds, unread = kinds_of(secrets), np.full(len(secrets), np.nan)
        searched = kinds if self.searched else []
        continued = self.suffix and _of("record", secrets)
        return [
            *(Hits.missed(self.generations, kind=kind) for kind in kinds),
            *(Likelihoods(unread, kind=kind) for kind in kinds),
            *(_searched([], kind) for kind in searched),
            *([_verbatim(unread)] if continued else []),
        ]

    def asking(self, tries: int) -> Extraction:
        return replace(self, generations=tries)

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Generate first, then read probabilities, then search with the remaining budget.

        A limited budget is split equally among the generations of each kind of value; what they
        leave is read and searched for one kind after the other.
        """
        kinds = kinds_of(secrets)
        evidence: list[Evidence] = [
            self._generate(predictor, secrets, kind, parts)
            for kind, parts in zip(kinds, range(len(kinds), 0, -1), strict=True)
        ]
        evidence += [_read(predictor, secrets, kind) for kind in kinds]
        if self.searched:
            evidence += [self._search(predictor, secrets, kind) for kind in kinds]
        if self.suffix and _of("record", secrets):
            evidence.append(self._continue(predictor, secrets))
        return evidence

    def _generate(
        self, predictor: Predictor, secrets: Sequence[Secret], kind: str, parts: int
    ) -> Hits:
        """Sample g generations, shared among the distinct prompts; drop those after STOP.

        parts: of a limited budget, one of so many is for this kind.
        """
        tokenizer, codes = predictor.tokenizer, _of(kind, secrets)
        lengths = [len(continuation(tokenizer, secrets[i].prefix, secrets[i].value)) for i in codes]
        length = max(lengths)
        prefixes = list(dict.fromkeys(secrets[i].prefix for i in codes))
        g = self.generations
        if predictor.remaining is not None:
            g = min(g, predictor.remaining // parts // length)
        chosen = [prefixes[i % len(prefixes)] for i in range(g)]
        prompts = [[tokenizer.start, *tokenizer.encode(prefix)] for prefix in chosen]
        answers = predictor.generate(prompts, length)
        index = {(secrets[i].prefix, secrets[i].value): i for i in reversed(codes)}
        full = [(p, a) for p, a in zip(chosen, answers, strict=True) if a.answered == length]
        form = re.compile(form_of(kind, [secrets[i] for i in codes]))
        guesses = [guess_in(form, tokenizer.decode(a.tokens), a.more) for _, a in full]
        texts = tuple(text for text, _ in guesses)
        found = [index.get((p, text), -1) for (p, _), text in zip(full, texts, strict=True)]
        longest = max(len(secrets[i].value) for i in codes)
        missed = Counter(  # what was cut within a value may look like a shorter one
            prefix
            for (prefix, answer), (text, is_value), i in zip(full, guesses, found, strict=True)
            if answer.given is not Given.TEXT and i < 0 and not (is_value and len(text) == longest)
        )
        return Hits(
            np.array(found, dtype=np.int64),
            tuple(Counter(texts).values()),
            texts,
            whole=len(full) == len(answers),
            kind=kind,
            withheld=tuple(missed[prefix] for prefix in prefixes) if missed else (),
        )

    def _search(self, predictor: Predictor, secrets: Sequence[Secret], kind: str) -> Hits:
        """Find the most likely values after each prompt, equally many for each."""
        codes = _of(kind, secrets)
        prefixes = list(dict.fromkeys(secrets[i].prefix for i in codes))
        index = {(secrets[i].prefix, secrets[i].value): i for i in reversed(codes)}
        found: list[int] = []
        for prefix in prefixes if predictor.readable >= Access.DISTRIBUTION else ():
            space = next(secrets[i].space for i in codes if secrets[i].prefix == prefix)
            tree = None if space is None else tree_of(predictor.tokenizer, prefix, space)
            if tree is None or space is None:
                continue
            for symbols in self._most_likely(predictor, tree, self.searched // len(prefixes)):
                value = "".join(p[s] for p, s in zip(space.symbols, symbols, strict=True))
                found.append(index.get((prefix, value), -1))
        whole = len(found) == self.searched // len(prefixes) * len(prefixes)
        return _searched(found, kind, whole)

    def _most_likely(self, predictor: Predictor, tree: Tree, wanted: int) -> list[list[int]]:
        if self.search == "best_first":
            visited = search(predictor, tree, budget=self.budget, enough=wanted)
            chosen: list[list[int]] = visited.symbols[:wanted].tolist()
            if chosen:
                return chosen
        return beam(predictor, tree, wanted)

    def _continue(self, predictor: Predictor, secrets: Sequence[Secret]) -> Successes:
        """Test whether greedy decoding of the first half of a record gives the rest verbatim.

        Of a conversation the first half ends within the record's own turn: what stands before that
        may be the same in every record, or out of the loss.

        It does if every token of the rest is the most likely one after the tokens before it.
        """
        won = np.full(len(secrets), np.nan)
        records = _of("record", secrets)
        texts = dict.fromkeys((secrets[i].prefix, secrets[i].value) for i in records)
        halves = {text: _halves(predictor.tokenizer, *text, self.suffix) for text in texts}
        fit = [(t, *h) for t, h in halves.items() if len(h[0]) + len(h[1]) <= predictor.max_length]
        if predictor.readable >= Access.SCORE:
            n = affordable([len(tail) for _, _, tail in fit], predictor.remaining)
            heads, tails = [head for _, head, _ in fit[:n]], [tail for _, _, tail in fit[:n]]
            answers = zip(fit, predictor.score(heads, tails), strict=False)
            right = {
                t: float(a.top1.all()) for (t, *_), a in answers if a.answered == len(a.tokens)
            }
            for i in records:
                won[i] = right.get((secrets[i].prefix, secrets[i].value), np.nan)
        return _verbatim(won)


def _searched(found: list[int], kind: str, whole: bool = False) -> Hits:
    places, once = np.array(found, dtype=np.int64), (1,) * len(found)
    return Hits(places, once, (), False, whole, Access.DISTRIBUTION, kind)


def _verbatim(won: np.ndarray) -> Successes:
    return Successes("verbatim", "share of planted records", won, None, kind="record")


def _of(kind: str, secrets: Sequence[Secret]) -> list[int]:
    return [i for i, secret in enumerate(secrets) if secret.kind == kind]


def _halves(
    tokenizer: Tokenizer, before: str, value: str, suffix: int
) -> tuple[list[int], list[int]]:
    """Split a record: its first half with the start token, and at most `suffix` tokens after.

    Of a conversation, all that stands before the value is given, and the first half of that.
    """
    head, (tail,) = continuations(tokenizer, before, [value])
    tokens, given = [tokenizer.start, *head, *tail], len(head) if is_chat(tokenizer) else 0
    middle = (len(tokens) + 1 + given) // 2
    return tokens[:middle], tokens[middle : middle + suffix]


def _read(predictor: Predictor, secrets: Sequence[Secret], kind: str) -> Likelihoods:
    """Read the log-probability of each value, nats, in order; NaN beyond the budget."""
    codes = _of(kind, secrets)
    log_probs = np.full(len(secrets), np.nan)
    log_probs[codes] = read(predictor, [secrets[i] for i in codes])
    return Likelihoods(log_probs, kind=kind)
