"""Code extraction: does the release, asked often enough, give planted codes away?

The experiment of SubMix (arXiv 2201.00971, section 4.2): g generations from the prompt before the
codes; a generation that is exactly one of them is a hit. Where the auditor may read probabilities:
the chance of each code per generation, and with it (n, p)-discoverable extraction (arXiv
2410.19482); the most likely codes of all, by search; and whether the second half of a record
follows from its first (arXiv 2202.07646).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attacks._prefix_tree import Tree, beam, search, tree_of
from attacks._reading import read
from audit.core.attack import Attack, Knowledge
from audit.core.errors import UsageError
from audit.core.evidence import Evidence, Hits, Likelihoods, Successes
from audit.core.predictor import (
    Access,
    Predictor,
    Tokenizer,
    affordable,
    continuation,
    record_tokens,
)
from audit.core.secret import Secret

SEARCHES = ("best_first", "beam")


@dataclass(frozen=True)
class Extraction(Attack):
    """Samples generations from the prompt and counts those that are a planted code.

    generations: g, how many are sampled; fewer where a session's budget does not reach.
    searched: how many of the most likely codes are looked up, with what queries are left.
    search: best_first finds exactly the most likely ones; beam asks fewer queries.
    budget: prefixes opened at most by that search; where it finds nothing within it, a beam does.
    suffix: tokens that must follow, exactly, from the first half of a record; 0 for no records.
    """

    generations: int = 100
    searched: int = 100
    search: str = "best_first"
    budget: int = 20_000
    suffix: int = 50
    kinds = ("code", "record")
    access = Access.GENERATE

    def __post_init__(self) -> None:
        for name, least in (("generations", 1), ("searched", 0), ("budget", 1), ("suffix", 0)):
            if getattr(self, name) < least:
                raise UsageError(
                    f"extraction: {name} is {getattr(self, name)}; it must be at least {least}"
                )
        if self.search not in SEARCHES:
            raise UsageError(f"extraction: search is {self.search!r}; it can be best_first or beam")

    def queries(self, secrets: Sequence[Secret], tokenizer: Tokenizer) -> int:
        codes = _of("code", secrets)
        values = [len(continuation(tokenizer, secrets[i].prefix, secrets[i].value)) for i in codes]
        records = {secrets[i].value for i in _of("record", secrets)}
        halves = sum(len(_halves(tokenizer, text, self.suffix)[1]) for text in records)
        size = max((s.space.size for s in secrets if s.space is not None), default=0)
        beam = self.searched * max(values, default=0)
        asked = min(size // 9, self.budget) if self.search == "best_first" else 0
        searched = (asked + beam) if self.searched else 0
        return self.generations * max(values, default=0) + sum(values) + halves + searched

    def trials(self) -> int:
        return self.generations

    def tests(self, secrets: Sequence[Secret]) -> int:
        codes, records = bool(_of("code", secrets)), bool(_of("record", secrets))
        return codes * (2 + (self.searched > 0)) + (records and self.suffix > 0)

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Generates first, then reads probabilities, then searches, with what budget is left."""
        evidence: list[Evidence] = []
        codes = _of("code", secrets)
        if codes:
            evidence.append(self._generate(predictor, secrets, codes))
            evidence.append(_read(predictor, secrets, codes))
            if self.searched:
                evidence.append(self._search(predictor, secrets, codes))
        if self.suffix and _of("record", secrets):
            evidence.append(self._continue(predictor, secrets))
        return evidence

    def _generate(
        self, predictor: Predictor, secrets: Sequence[Secret], codes: Sequence[int]
    ) -> Hits:
        """g generations, shared among the distinct prompts; those after STOP do not count."""
        tokenizer = predictor.tokenizer
        lengths = [len(continuation(tokenizer, secrets[i].prefix, secrets[i].value)) for i in codes]
        length = max(lengths)
        prefixes = list(dict.fromkeys(secrets[i].prefix for i in codes))
        g = self.generations
        if predictor.remaining is not None:
            g = min(g, predictor.remaining // length)
        asked = [prefixes[i % len(prefixes)] for i in range(g)]
        prompts = [[tokenizer.start, *tokenizer.encode(prefix)] for prefix in asked]
        answers = predictor.generate(prompts, length)
        index = {(secrets[i].prefix, secrets[i].value): i for i in reversed(codes)}
        kept = [(p, a) for p, a in zip(asked, answers, strict=True) if a.answered == length]
        texts = tuple(_code(tokenizer.decode(a.tokens)) for _, a in kept)
        found = [index.get((p, text), -1) for (p, _), text in zip(kept, texts, strict=True)]
        repeats = tuple(Counter(texts).values())
        return Hits(np.array(found, dtype=np.int64), repeats, texts, kind="code")

    def _search(
        self, predictor: Predictor, secrets: Sequence[Secret], codes: Sequence[int]
    ) -> Hits:
        """The most likely codes after each prompt, as many of each; each is tried once."""
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
        return Hits(
            np.array(found, dtype=np.int64),
            (1,) * len(found),
            sampled=False,
            access=Access.DISTRIBUTION,
            kind="code",
        )

    def _most_likely(self, predictor: Predictor, tree: Tree, wanted: int) -> list[list[int]]:
        if self.search == "best_first":
            found = search(predictor, tree, budget=self.budget, enough=wanted)
            chosen: list[list[int]] = found.symbols[:wanted].tolist()
            if chosen:
                return chosen
        return beam(predictor, tree, wanted)

    def _continue(self, predictor: Predictor, secrets: Sequence[Secret]) -> Successes:
        """Whether greedy decoding from the first half of a record gives the rest of it, verbatim.

        A token at a time that is the case where every token of the rest is the most likely one.
        """
        won = np.full(len(secrets), np.nan)
        records = _of("record", secrets)
        texts = dict.fromkeys(secrets[i].value for i in records)
        halves = {text: _halves(predictor.tokenizer, text, self.suffix) for text in texts}
        fit = [(t, *h) for t, h in halves.items() if len(h[0]) + len(h[1]) <= predictor.max_length]
        if predictor.readable >= Access.SCORE:
            n = affordable([len(tail) for _, _, tail in fit], predictor.remaining)
            heads, tails = [head for _, head, _ in fit[:n]], [tail for _, _, tail in fit[:n]]
            answers = zip(fit, predictor.score(heads, tails), strict=False)
            right = {
                t: float(a.top1.all()) for (t, *_), a in answers if a.answered == len(a.tokens)
            }
            for i in records:
                won[i] = right.get(secrets[i].value, np.nan)
        return Successes("verbatim", "share of planted records", won, None, kind="record")


def _of(kind: str, secrets: Sequence[Secret]) -> list[int]:
    return [i for i, secret in enumerate(secrets) if secret.kind == kind]


def _halves(tokenizer: Tokenizer, text: str, suffix: int) -> tuple[list[int], list[int]]:
    """The first half of a record, with its start token, and at most `suffix` tokens after it."""
    tokens = record_tokens(tokenizer, text)[:-1]
    middle = (len(tokens) + 1) // 2
    return tokens[:middle], tokens[middle : middle + suffix]


def _code(text: str) -> str:
    """The digits a generation opens with, or the text itself where it opens with none."""
    match = re.match(r"\s*(\d+)", text)
    return match.group(1) if match else text


def _read(predictor: Predictor, secrets: Sequence[Secret], codes: Sequence[int]) -> Likelihoods:
    """log-probability of each code, as many as the budget allows, in the order given."""
    log_probs = np.full(len(secrets), np.nan)
    log_probs[list(codes)] = read(predictor, [secrets[i] for i in codes])
    return Likelihoods(log_probs, kind="code")
