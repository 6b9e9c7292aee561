"""Measures on public records whether a model copies from its prompt: else nothing can leak there.

A record is read after itself and after another record. A model that copies finds it likelier after
itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from audit.core.language_model import LanguageModel
from audit.core.predictor import record_tokens
from defenses.prompts.prompted import Prompted, reference_of

MOST = 64  # public records that are read
LEVEL = 0.05
LEAST = 1e-3  # nats a token: smaller differences may be rounding


def spread_out(texts: Sequence[str]) -> tuple[str, ...]:
    """Choose at most `MOST` distinct texts, evenly over all: neighbours are often of one user."""
    distinct = [text for text in dict.fromkeys(texts) if text]
    step = max(1, len(distinct) // MOST)
    return tuple(distinct[::step][:MOST])


@dataclass(frozen=True)
class Copying:
    """What a record costs in its prompt's company, of n public records.

    alone, itself, another: mean negative log-likelihood, nats a token, without a reference, after
    itself, and after another record. p_value: of the one-sided paired t-test that itself is no
    better than another; None for fewer than two records.
    """

    n: int
    alone: float = 0.0
    itself: float = 0.0
    another: float = 0.0
    p_value: float | None = None

    @property
    def found(self) -> bool:
        """Whether the model was found to copy."""
        better = self.another - self.itself > LEAST
        return self.p_value is not None and self.p_value < LEVEL and better

    @property
    def sentence(self) -> str:
        """State what was measured."""
        if self.p_value is None:
            return "whether the model copies from its prompt was not measured: no public records"
        does = "copies" if self.found else "was not found to copy"
        return (
            f"the model {does} from its prompt: on {self.n} public records, a token costs "
            f"{self.itself:.3f} nats after the record itself and {self.another:.3f} after another "
            f"(p = {self.p_value:.2g}; {self.alone:.3f} without a reference)"
        )

    @property
    def unheard(self) -> str:
        """State why silence of an attack shows nothing; empty where the model copies."""
        if self.found:
            return ""
        sentence = self.sentence[:1].upper() + self.sentence[1:]
        return f"{sentence}, so a text in its prompts is as good as not trained on"


def measure(model: LanguageModel, texts: Sequence[str], longest: int) -> Copying:
    """Read public texts after themselves and after each other, each cut to `longest` tokens."""
    if len(texts) < 2:
        return Copying(len(texts))
    references = [reference_of(model.tokenizer, [text], longest) for text in texts]
    records = [record_tokens(model.tokenizer, text)[: longest + 1] for text in texts]
    pairs = list(zip(records, references, references[1:] + references[:1], strict=True))
    costs = np.array(
        [[_cost(model, r, before) for before in ((), own, other)] for r, own, other in pairs]
    )
    test = stats.ttest_rel(costs[:, 2], costs[:, 1], alternative="greater")
    p_value = 1.0 if np.isnan(test.pvalue) else float(test.pvalue)  # NaN: no record differs
    alone, itself, another = map(float, costs.mean(axis=0))
    return Copying(len(texts), alone, itself, another, p_value)


def _cost(model: LanguageModel, record: Sequence[int], reference: tuple[int, ...]) -> float:
    """Compute the mean negative log-likelihood of a record after a reference, nats a token."""
    log_pmfs = Prompted(model, reference).log_pmfs([record], [1])
    return -float(log_pmfs[range(len(record) - 1), list(record[1:])].mean())
