"""Membership inference: scores whether a record, or a short value, was in the training text.

One pass of the release gives the scores of Yeom et al. (arXiv 1709.01604: loss), Carlini et al.
(arXiv 2012.07805: zlib), Shi et al. (arXiv 2310.16789: Min-K%) and Zhang et al. (arXiv 2404.02936:
Min-K%++). Beside one pass of the base model, it also gives those of Carlini et al. (ratio), of
arXiv 2507.18302 (Min-K%++ calibrated), arXiv 2601.12104 (EZ-MIA: ez) and arXiv 2601.02751 (wbc).
Shadow models add those of Carlini et al. (arXiv 2112.03570: LiRA) and Zarifzadeh et al. (arXiv
2312.03262: RMIA).

A real user with a coin has two scores: the mean and the largest of the named score over all records
of the user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from attacks.scores.membership_scores import ALONE, BESIDE_BASE, access_of, one_pass
from attacks.scores.membership_sessions import Sessions
from attacks.scores.membership_targets import TARGETS, Target, targets_of
from attacks.scores.own_targets import own_target
from attacks.scores.shadow_models import lira_offline, lira_online, rmia
from attacks.scores.token_readings import mean_log_probs
from audit.core.attack import Attack, Knowledge
from audit.core.evidence import Evidence, Scores
from audit.core.predictor import Access, Predictor
from audit.core.rules import POSITIVE, SHARE, Rule
from audit.core.secret import OWN, Secret

WITH_SHADOWS = ("lira_offline", "lira_online", "rmia")
NAMED = "ratio"  # beforehand, to be quoted first; all scores are tests alike

_AT_ONCE = 256  # candidates in memory at a time
_POPULATION = 256  # held-out texts with which RMIA compares
_EVEN = Rule("even, or 0 (none), and at most 1,000", lambda n: 0 <= n <= 1000 and n % 2 == 0)
_PROBED = 16  # candidates that tell how a training opened its texts


@dataclass(frozen=True)
class Membership(Attack):
    """Scores whole records, and codes and other short values alone in their context.

    From the release alone: loss, zlib, Min-K%, Min-K%++. Beside the base model: ratio, EZ-MIA,
    window comparison, Min-K%++ calibrated. With shadow models: LiRA, RMIA.

    shadows: number of shadow models for LiRA and RMIA; even; 0 skips both.
    k: share of the least likely tokens that the Min-K% scores average; above 0 and at most 1.
    gamma: least likelihood ratio γ with which RMIA counts a held-out text as beaten; above 0.
    """

    shadows: Annotated[int, _EVEN] = 0
    k: Annotated[float, SHARE] = 0.2
    gamma: Annotated[float, POSITIVE] = 1.0
    kinds = (*TARGETS.values(), OWN)
    access = Access.SCORE

    def shape(self, secrets: Sequence[Secret], public: bool) -> Sequence[Evidence]:
        unread = np.full(len(secrets), np.nan)
        names = _one_pass_names(public) + (WITH_SHADOWS if self.shadows else ())
        unscored = dict.fromkeys(names, unread)
        shape = [
            score
            for target in targets_of(secrets)
            for score in _scores(target.name, unscored, public)
        ]
        own = own_target(secrets)
        if own is not None:
            unread = np.full(len(own.records.texts), np.nan)
            shape += _scores(OWN, own.of_users(_named(public), unread), public)
        return shape

    def run(
        self, predictor: Predictor, secrets: Sequence[Secret], knowledge: Knowledge
    ) -> Sequence[Evidence]:
        """Split a limited budget equally among targets, and then leave RMIA out."""
        shadows, based = knowledge.shadows if self.shadows else (), knowledge.public is not None
        sessions = Sessions(predictor, knowledge.public, tuple(s.predictor for s in shadows))
        targets, limit = targets_of(secrets), sessions.limit
        own = own_target(secrets, knowledge.corpus)
        budget = None if limit is None else limit // max(len(targets) + (own is not None), 1)
        compared = shadows and limit is None and predictor.readable >= Access.SCORE
        population = sessions.population(knowledge.texts[:_POPULATION] if compared else ())
        evidence: list[Evidence] = []
        for target in targets:
            measured = self._measure(target, sessions, budget, knowledge.opened)
            values = measured.scores
            if shadows:
                present = np.array([target.present(shadow.present) for shadow in shadows])
                phi = values["loss"], measured.phi
                values["lira_offline"] = lira_offline(*phi, present)
                values["lira_online"] = lira_online(*phi, present)
                values["rmia"] = rmia(*phi, population[0], population[1:], self.gamma)
            spread = {name: target.spread(column) for name, column in values.items()}
            evidence += _scores(target.name, spread, based, measured.windowed)
        if own is not None:
            alone = replace(sessions, shadows=())
            measured = self._measure(own.records, alone, budget, knowledge.opened)
            of_users = own.of_users(_named(based), measured.scores[_named(based)])
            evidence += _scores(OWN, of_users, based, measured.windowed)
        return evidence

    def _measure(
        self, target: Target, sessions: Sessions, budget: int | None, opened: bool | None
    ) -> _Measured:
        """Score the candidates that a budget allows.

        opened: whether the start token opens texts; None: decided by what the release has learnt.
        """
        based, size = sessions.public is not None, len(target.texts)
        count, windowed = target.reach(sessions.release, budget), 0
        values = {name: np.full(size, np.nan) for name in _one_pass_names(based)}
        phi = np.full((len(sessions.shadows), size), np.nan)
        if opened is None:
            free = budget is None and count > 0
            opened = not free or sessions.opens(target, range(count)[:_PROBED])
        for first in range(0, count, _AT_ONCE):
            chunk = range(first, min(first + _AT_ONCE, count))
            texts = sessions.pieces(target, chunk, opened)
            windowed += sum(len(pieces) > 1 for pieces in texts)
            for i, reading, base in zip(chunk, *sessions.read(texts), strict=True):
                for name, value in one_pass(reading, base, target.texts[i][1], self.k).items():
                    values[name][i] = value
            for row, shadow in zip(phi, sessions.shadows, strict=True):
                row[chunk] = mean_log_probs(shadow, texts)
        return _Measured(values, phi, windowed)


@dataclass(frozen=True)
class _Measured:
    """Measurements of one target's n candidates; NaN where not read.

    scores: by name, shape (n,). phi: shape (S, n), nats: mean log-probability under each shadow
    model. windowed: number of candidates read in pieces.
    """

    scores: dict[str, np.ndarray]
    phi: np.ndarray
    windowed: int


def _scores(
    target: str, values: Mapping[str, np.ndarray], based: bool, windowed: int = 0
) -> list[Scores]:
    """Return the scores of one target, the named one first. values: by score, shape (s,)."""
    named = f"mean_{_named(based)}" if target == OWN else _named(based)
    return [
        Scores(
            score=name,
            target=target,
            values=values[name],
            windowed=windowed,
            named=name == named,
            access=access_of(name),
            kind=TARGETS.get(target, OWN),
        )
        for name in sorted(values, key=lambda name: name != named)
    ]


def _named(based: bool) -> str:
    return NAMED if based else ALONE[0]


def _one_pass_names(based: bool) -> tuple[str, ...]:
    return ALONE + BESIDE_BASE if based else ALONE
