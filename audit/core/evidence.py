"""Evidence: what one attack saw in one session, before any coin is joined.

Every kind is an array over the candidate secrets, or over generations, with a sign: higher means
more likely to be given away. NaN: not measured, because the session's budget did not reach, or
because the release does not tell; which ones was chosen before any query, blind to the coins.
"""

from __future__ import annotations

import dataclasses
from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.core.predictor import Access


class Evidence(ABC):
    """Frozen dataclasses; `access` is what a release must give for it to be had.

    kind: the kind of secret it is about; None: all that the attack went for. Arrays over secrets
    hold a place for every one of these, too.
    """

    access: Access
    kind: str | None


@dataclass(frozen=True, slots=True)
class Hits(Evidence):
    """Values that were tried, each compared with every secret.

    found: shape (n,), int: index of the secret that value i is exactly; −1: none.
    repeats: how often each different value came; sums to n.
    texts: the n values, as text; not kept once they are written, masked, to samples.jsonl.
    sampled: True for generations, False for the most likely values, each of them once.
    """

    found: np.ndarray
    repeats: tuple[int, ...]
    texts: tuple[str, ...] = ()
    sampled: bool = True
    access: Access = Access.GENERATE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Mentions(Evidence):
    """Generations that may name people: for each, the secrets named, as indices.

    others: shape (n,), float: whether a generation names somebody else (by a recogniser of
        entities); NaN where none is installed.
    texts: as in Hits.
    """

    named: tuple[tuple[int, ...], ...]
    others: np.ndarray
    texts: tuple[str, ...] = ()
    access: Access = Access.GENERATE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Likelihoods(Evidence):
    """The probability that one generation is exactly this secret: log_probs (s,), nats, ≤ 0."""

    log_probs: np.ndarray
    access: Access = Access.SCORE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Ranks(Evidence):
    """Where each secret stands among the candidates of its space, by summed log-probability.

    Rivals are all candidates but the other secrets: several that are all memorised would else push
    each other down. Everything has shape (s,).
    log_probs: nats. better, worst: certified bounds on the rank; `worst` counts ties against the
    secret. middle: the mid-rank, or where better < worst for lack of queries the best estimate
    between them, NaN without any; for figures only, never for an ε. spaces: the number of
    candidates the ranks are out of: |R| less the other secrets, or n + 1 where n references were
    sampled. whole: as `worst`, but among all of |R|: for tests that need independent ranks. exact:
    1.0 where the rank was counted to the end, ties apart; 0.0 where it was not; NaN where
    references were sampled. fitted: bits: extrapolated exposure (skew-normal) where the fit to
    such references holds.
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
    """One membership score of every candidate: values (s,), higher = more likely trained on.

    score: its name in the literature, such as "loss" or "min_k". target: "record" or "span".
    windowed: how many candidates were longer than the context and read in windows.
    """

    score: str
    target: str
    values: np.ndarray
    windowed: int = 0
    access: Access = Access.SCORE
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Successes(Evidence):
    """Whether an attack on each secret by itself succeeded: won (s,), 1.0 or 0.0.

    metric, unit: what a success is. chance: its probability where nothing leaked; None: unknown.
    """

    metric: str
    unit: str
    won: np.ndarray
    chance: float | None
    access: Access = Access.SCORE
    kind: str | None = None


_CLASSES = {cls.__name__: cls for cls in (Hits, Mentions, Likelihoods, Ranks, Scores, Successes)}


def to_json(evidence: Evidence) -> dict[str, Any]:
    """Evidence as a stage keeps it: without any text, NaN as null, infinities as words."""
    fields = dataclasses.asdict(evidence)  # type: ignore[call-overload]
    fields.pop("texts", None)
    kept = {name: _plain(value) for name, value in fields.items()}
    return {"evidence": type(evidence).__name__, **kept}


def from_json(document: Mapping[str, Any]) -> Evidence:
    """What `to_json` was given, texts apart."""
    fields = dict(document)
    cls = _CLASSES[fields.pop("evidence")]
    fields["access"] = Access(fields["access"])
    for field in dataclasses.fields(cls):
        if field.type == "np.ndarray":
            array = np.array([np.nan if x is None else float(x) for x in fields[field.name]])
            fields[field.name] = array.astype(int) if field.name == "found" else array
        elif field.name in ("repeats", "named"):
            fields[field.name] = _tuples(fields[field.name])
    made: Evidence = cls(**fields)
    return made


def about(evidence: Evidence, kept: Sequence[int]) -> Evidence:
    """The same evidence over some of the secrets: those at the places `kept`, in that order."""
    place = {old: new for new, old in enumerate(kept)}
    changed: dict[str, Any] = {}
    for field in dataclasses.fields(evidence):  # type: ignore[arg-type]
        value = getattr(evidence, field.name)
        if field.name == "found":
            changed["found"] = np.array([place.get(int(i), -1) for i in value], dtype=int)
        elif field.name == "named":
            changed["named"] = tuple(tuple(place[i] for i in row if i in place) for row in value)
        elif field.type == "np.ndarray" and field.name != "others":
            changed[field.name] = value[list(kept)]
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
