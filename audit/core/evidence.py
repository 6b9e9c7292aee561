"""Evidence: what one attack observes in one session, before coins are looked at.

An attack returns a list of these. Below, s is the number of candidate secrets, in the order in
which `Attack.run` received them, and n the number of generations or guesses:

    class        main array     one entry per   values               sign
    Hits         found          guess (n,)      index 0 … s−1, −1    −1: no secret
    Mentions     named          generation (n)  indices              empty: no secret
    Likelihoods  log_probs      secret (s,)     nats, ≤ 0            higher = leaks more
    Ranks        better, worst  secret (s,)     ranks, ≥ 1           lower = leaks more
    Scores       values         secret (s,)     any unit             higher = more likely trained on
    Successes    won            secret (s,)     1.0 or 0.0           1.0 = the attack succeeded
    Divergences  forth, back    query (m, q)    nats, ≥ 0            higher = leaks more of a unit
    LogRatios    forth, back    query (m, q)    nats                 on average higher = leaks more

`Exhibits` holds copies of text whose owners have no coin, shape (e,), in nats: lower = leaks more.

The last two are about a service's ledger, not a secret: q is the number of queries, m that of
neighbours, each the same service without one unit of the data, or with it replaced.

NaN in an array over secrets means not measured: the session's budget was too small, or the release
does not give what is needed. Which secrets are measured must be chosen before any query, and cannot
depend on coins.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from audit.core.predictor import Access


class Evidence(ABC):
    """A frozen dataclass of arrays.

    access: least access to a release with which this evidence can be collected.
    kind: kind of secret it is about; None for all kinds of the attack. Arrays over secrets always
        have s entries; those of secrets of another kind are NaN.
    on_secrets: False for evidence on a service's queries.
    """

    access: Access
    kind: str | None
    on_secrets: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Hits(Evidence):
    """Guessed values, each compared with every secret.

    found: shape (n,), int: index of the secret that equals value i exactly; −1 for none.
    repeats: how often each distinct value occurs, at least 1 each; the sum is n.
    texts: the n values as text; () is allowed. Dropped after they are written, masked, to
        samples.jsonl.
    sampled: True for generations; False for a list of the most likely values, each once.
    whole: whether the session answered all tries that were asked for; False: no, or not known.
    withheld: by distinct prompt, in the order of the secrets, how many of its tries a server gave
        no value for, or less than a whole one; () for none. Each might have been a hit.
    """

    found: np.ndarray
    repeats: tuple[int, ...]
    texts: tuple[str, ...] = ()
    sampled: bool = True
    whole: bool = False
    access: Access = Access.GENERATE
    kind: str | None = None
    withheld: tuple[int, ...] = ()

    @classmethod
    def missed(cls, n: int, **fields: Any) -> Hits:
        """Return n different values of which none is a secret."""
        return cls(np.full(n, -1), (1,) * n, **fields)


@dataclass(frozen=True, slots=True)
class Mentions(Evidence):
    """Generated texts and the people that they name.

    named: for each of n generations, the indices of the secrets that it names; () for none.
    others: shape (n,), float: 1.0 if a generation names a person who is not a secret, else 0.0; NaN
        without an entity recogniser.
    texts: the n generations as text; whole: as in Hits. withheld: how many were not given whole,
        and name nobody.
    """

    named: tuple[tuple[int, ...], ...]
    others: np.ndarray
    texts: tuple[str, ...] = ()
    whole: bool = False
    access: Access = Access.GENERATE
    kind: str | None = None
    withheld: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Likelihoods(Evidence):
    """The probability that one generation is exactly this secret.

    log_probs: shape (s,), nats, ≤ 0: higher = more likely to be generated.
    """

    log_probs: np.ndarray
    access: Access = Access.SCORE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Ranks(Evidence):
    """The rank of each secret among the candidates of its space R, by summed log-probability.

    Rank 1 is the most likely candidate: lower ranks leak more. A secret competes with all
    candidates except the remaining secrets, because memorised secrets would push each other down.
    All arrays have shape (s,), float.

    log_probs: nats: summed log-probability of the secret.
    better, worst: certified bounds on the rank, 1 ≤ better ≤ worst; `worst` counts ties against
        the secret.
    middle: mid-rank, or the best estimate between the bounds if queries ran out; NaN for none. For
        figures only, never for an ε.
    spaces: number of candidates in the ranking: |R| without the remaining secrets, or n + 1 for n
        sampled references.
    whole: like `worst`, but among all of R, for tests that need independent ranks.
    exact: 1.0 if the rank is fully counted (up to ties), 0.0 if only bounded, NaN if references
        were sampled.
    fitted: bits: exposure extrapolated by a skew-normal fit to references; NaN without a good fit.
    """

    log_probs: np.ndarray
    better: np.ndarray
    worst: np.ndarray
    middle: np.ndarray
    spaces: np.ndarray
    whole: np.ndarray
    exact: np.ndarray
    fitted: np.ndarray
    access: Access = Access.DISTRIBUTION
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Scores(Evidence):
    """One membership score of every candidate.

    score: name of the score in the literature, such as "loss" or "min_k".
    target: what is scored: "record" (a whole text), "span" (a code in a text), or for another
        short value "email_span" and so on. A span has a test of which of two values is planted.
    values: shape (s,), any unit: higher = more likely trained on.
    windowed: number of candidates longer than the context, which were read in windows.
    named: whether this score was named beforehand as the one to quote of its target. Its low end
        (TPR at a low false positive rate) has tests of its own.
    """

    score: str
    target: str
    values: np.ndarray
    windowed: int = 0
    named: bool = False
    access: Access = Access.SCORE
    kind: str | None = None


def is_span(target: str) -> bool:
    """Return whether a target of scores is a short value within a text."""
    return target == "span" or target.endswith("_span")


@dataclass(frozen=True, slots=True)
class Successes(Evidence):
    """Success or failure of a separate attack on each secret.

    metric: name of the rate of successes. unit: what the rate is a share of.
    won: shape (s,), 1.0 for success, 0.0 for failure.
    chance: probability of a success without any leak; None if unknown.
    """

    metric: str
    unit: str
    won: np.ndarray
    chance: float | None
    access: Access = Access.SCORE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Divergences(Evidence):
    """Differences of each query's answer between a service and its neighbours, computed from laws.

    units: unit in which each of m neighbours differs, as numbered in the ledger. relations: how.
    order: order α of the divergences.
    forth, back: shape (m, q), nats: least D_α(h‖h') and least D_α(h'‖h) of the answer's law h in
        the session and h' in the neighbour's, for the session's first q queries; NaN where a
        neighbour stopped before.
    """

    units: tuple[int, ...]
    relations: tuple[str, ...]
    order: float
    forth: np.ndarray
    back: np.ndarray
    access: Access = Access.GENERATE
    kind: str | None = None
    on_secrets = False


@dataclass(frozen=True, slots=True)
class LogRatios(Evidence):
    """Log ratios of single tokens that a service and its neighbours draw.

    units, relations: as in Divergences.
    forth: shape (m, q), nats: log h/h' of tokens drawn by each neighbour; −inf = impossible in the
        session; NaN = not answered.
    forth_queries: shape (m, q), int: number of the session's query that each belongs to.
    back, back_queries: shape (m, q): log h'/h of tokens drawn in the session, and their queries.
    """

    units: tuple[int, ...]
    relations: tuple[str, ...]
    forth: np.ndarray
    forth_queries: np.ndarray
    back: np.ndarray
    back_queries: np.ndarray
    access: Access = Access.GENERATE
    kind: str | None = None
    on_secrets = False


@dataclass(frozen=True, slots=True)
class Exhibits(Evidence):
    """Copies of text of users whom no coin decides, each beside what the base model writes.

    log_probs: shape (e,), nats: log-probability of each copied run under the base, after the same
        text, without tokens that others' text explains; NaN: base unknown. One copy a user.
    users: shape (e,), int: in how many users' records the run stands; 1: in one user's alone.
    tried: prompts × samples × places at which a run could have begun. asked: users prompted.
    """

    log_probs: np.ndarray
    users: np.ndarray
    tried: int
    asked: int
    access: Access = Access.GENERATE
    kind: str | None = None
    on_secrets = False

    @classmethod
    def none(cls, kind: str) -> Exhibits:
        """Return what no prompt gives."""
        return cls(np.empty(0), np.empty(0, dtype=np.int64), 0, 0, kind=kind)


_INTEGERS = ("found", "users", "forth_queries", "back_queries")
_CLASSES = {
    cls.__name__: cls
    for cls in (
        *(Hits, Mentions, Likelihoods, Ranks, Scores, Successes, Exhibits),
        *(Divergences, LogRatios),
    )
}


def to_json(evidence: Evidence) -> dict[str, Any]:
    """Convert evidence to JSON values: without texts, NaN as null, infinities as words."""
    fields = dataclasses.asdict(evidence)  # type: ignore[call-overload]
    fields.pop("texts", None)
    plain = {name: _plain(value) for name, value in fields.items()}
    return {"evidence": type(evidence).__name__, **plain}


def from_json(document: Mapping[str, Any]) -> Evidence:
    """Restore the evidence that `to_json` converted, without texts."""
    fields = dict(document)
    cls = _CLASSES[fields.pop("evidence")]
    fields["access"] = Access(fields["access"])
    arrays = {field.name for field in dataclasses.fields(cls) if field.type == "np.ndarray"}
    for name, value in fields.items():
        if name in arrays:  # NumPy reads None as NaN, and words of infinities
            fields[name] = np.array(value, dtype=float).astype(int if name in _INTEGERS else float)
        else:
            fields[name] = _tuples(value)
    made: Evidence = cls(**fields)
    return made


def about(evidence: Evidence, secrets: Sequence[int]) -> Evidence:
    """Restrict evidence to the secrets at these indices, in this order."""
    if not evidence.on_secrets:
        return evidence
    place = {old: new for new, old in enumerate(secrets)}
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(evidence):  # type: ignore[arg-type]
        value = getattr(evidence, field.name)
        if field.name == "found":
            changed["found"] = np.array([place.get(int(i), -1) for i in value], dtype=int)
        elif field.name == "named" and isinstance(value, tuple):  # of Mentions
            changed["named"] = tuple(tuple(place[i] for i in row if i in place) for row in value)
        elif field.type == "np.ndarray" and field.name != "others":
            changed[field.name] = value[list(secrets)]
    made: Evidence = dataclasses.replace(evidence, **changed)  # type: ignore[type-var]
    return made


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return None if value != value else str(value) if abs(value) == float("inf") else value
    return int(value) if isinstance(value, Access) else value


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value
