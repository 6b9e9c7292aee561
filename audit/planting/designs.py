"""Designs of planted records: texts of a base model, in place of random words.

Candidates come from random streams of their own. They are filtered by what they are, by the corpus
and by the base model; then as many as are planted are chosen uniformly; only then are coins tossed.
So a text's coin alone decides whether it is trained on, as for every other canary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.errors import UsageError
from audit.core.language_model import LanguageModel, OpenSession, Tempered
from audit.core.predictor import Tokens
from audit.core.randomness import stream
from audit.planting.candidates import RUN, Candidate, copied, distinct, fit

RANDOM = "random"
PROMPT = 8  # tokens of a public text, which candidates go on from
_SURPLUS = 4  # candidates drawn in a round for each that is wanted
_ROUNDS = 64


@dataclass(frozen=True)
class Base:
    """The public model that the training starts from.

    sketch: makes what reads the gradient of a text, (d,), where the model has gradients.
    """

    name: str
    sha256: str
    model: LanguageModel
    sketch: Callable[[], Callable[[str], np.ndarray]] | None = None


@dataclass(frozen=True)
class Design:
    """Method by which candidates are drawn and chosen.

    parts: (tokens, temperature) of each part in turn. The last part is scored, the others are what
        attacks read before it.
    unlikely: which candidates are kept, given the mean negative log-likelihoods of all, nats a
        token of their last part under the base. rule: the same in words.
    """

    parts: tuple[tuple[int, float], ...]
    unlikely: Callable[[np.ndarray], np.ndarray]
    rule: str

    @property
    def tokens(self) -> int:
        return sum(tokens for tokens, _ in self.parts)

    @property
    def before(self) -> int:
        """The number of tokens before the last part."""
        return self.tokens - self.parts[-1][0]


def _upper_half(nlls: np.ndarray) -> np.ndarray:
    low, high = np.percentile(nlls, (50, 90)) if len(nlls) else (0, 0)
    return (low <= nlls) & (nlls <= high)


DESIGNS: Mapping[str, Design] = {
    # arXiv 2606.10481; what a base finds more likely it may have memorised
    "model": Design(((40, 1.0),), _upper_half, "base perplexity in percentiles 50 to 90"),
    # arXiv 2502.14921: a likely beginning, which texts echo, and an end that only members have
    "echo": Design(
        ((16, 0.7), (24, 1.5)), lambda nlls: nlls >= 6, "at least 6 nats a token of the last part"
    ),
}


@dataclass(frozen=True)
class Designed:
    """Chosen records, as (text before what is scored, text that is scored), and how they were made.

    document: what the manifest keeps.
    """

    records: tuple[tuple[str, str], ...]
    document: Mapping[str, Any]


def make(
    name: str, base: Base, corpus: Sequence[str], public: Sequence[str], wanted: int, seed: int
) -> Designed:
    """Make `wanted` records of a design; depends on no coin.

    corpus: all texts that a training may read. public: texts whose beginnings are prompts.
    Raises UsageError if too few candidates pass the filters.
    """
    design, tokenizer = DESIGNS[name], base.model.tokenizer
    if base.model.max_length < PROMPT + design.tokens + 1:
        raise UsageError(f"--base {base.name}: reads too few tokens for --design {name}")
    drawn, formed, new = 0, list[Candidate](), list[Candidate]()
    seen: set[Tokens] = set()
    for number in range(_ROUNDS):
        some = _drawn(
            design, base, public, _SURPLUS * wanted, stream(seed, "canaries", "records", number)
        )
        fitting = [one for tokens in some if (one := fit(tokenizer, tokens, design.before))]
        drawn, formed = drawn + len(some), formed + fitting
        new += list(distinct(fitting, copied(tokenizer, fitting, [*corpus, *public]), seen))
        nlls = _nlls(base.model, new)
        kept = [new[i] for i in np.flatnonzero(design.unlikely(nlls))]
        if len(kept) >= wanted:
            break
    else:
        raise UsageError(
            f"--design {name}: of {drawn:,} candidates only {len(kept):,} pass its filters, and "
            f"{wanted:,} are wanted; give a smaller --count or another --base"
        )
    chosen = stream(seed, "canaries", "choice").permutation(len(kept))[:wanted]
    refused = {
        "not the same tokens when read again": drawn - len(formed),
        f"{RUN} tokens in a row of the corpus or another candidate": len(formed) - len(new),
        "likelihood": len(new) - len(kept),
    }
    document = _document(name, base) | {"drawn": drawn, "refused": refused}
    return Designed(tuple((kept[i].prefix, kept[i].value) for i in chosen), document)


def _document(name: str, base: Base) -> dict[str, Any]:
    design = DESIGNS[name]
    return {
        "name": name,
        "base": base.name,
        "base_sha256": base.sha256,
        "parts": [list(part) for part in design.parts],
        "rule": design.rule,
    }


def _drawn(
    design: Design, base: Base, public: Sequence[str], count: int, generator: np.random.Generator
) -> list[Tokens]:
    """Sample the tokens of candidates, each after the beginning of a random public text."""
    tokenizer = base.model.tokenizer
    texts = [public[int(i)] for i in generator.integers(len(public), size=count)]
    heads = [[tokenizer.start, *tokenizer.encode(text)[:PROMPT]] for text in texts]
    whole: list[list[int]] = [[] for _ in heads]
    for length, temperature in design.parts:
        session = OpenSession(Tempered(base.model, temperature), generator)
        prompts = [[*head, *tokens] for head, tokens in zip(heads, whole, strict=True)]
        for tokens, answer in zip(whole, session.generate(prompts, length), strict=True):
            tokens += answer.tokens
    return list(whole)


def _nlls(model: LanguageModel, candidates: Sequence[Candidate]) -> np.ndarray:
    """Compute the mean negative log-likelihood, nats a token, of what is scored of each: (n,)."""
    heads = [[model.tokenizer.start, *one.tokens[: one.before]] for one in candidates]
    tails = [one.tokens[one.before :] for one in candidates]
    answers = OpenSession(model, np.random.default_rng(0)).score(heads, tails)
    return np.array([-answer.log_probs.mean() for answer in answers])
