"""A comparison in words: a line for each check, and the verdict."""

from __future__ import annotations

from audit.confounding.comparison import Comparison, Gap, Outcome, Unmeasured
from audit.confounding.profile import Check
from audit.confounding.sides import Side
from audit.results.words import count, number, p_value, share

_STATISTICS = {
    Check.LENGTH: "largest gap",
    Check.VOCABULARY: "shares moved",
    Check.SCRIPT: "shares moved",
    Check.DATES: "largest gap",
    Check.CLASSIFIER: "AUC",
}
_REASONS = {
    Unmeasured.NO_DATES: "no date is written in these texts",
    Unmeasured.ALIKE: "all users are alike in it",
    Unmeasured.FEW: "too few users differ in it: even the most unlike permutation would pass",
}
_HIDDEN = {
    Check.VOCABULARY: "words are not printed: they are private text",
    Check.CLASSIFIER: "bag of words, at most five folds of users",
}


def text(compared: Comparison) -> str:
    """Write all of it; the last line is the verdict."""
    sides, rows = compared.sides, [_row(outcome) for outcome in compared.outcomes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"{_side(sides.inside)}; {_side(sides.outside)}; {compared.permutations:,} permutations of "
        "users",
        *(
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ),
        *(f"note: {note}" for note in sides.notes),
        verdict(compared),
    ]
    return "\n".join(lines)


def verdict(compared: Comparison) -> str:
    """State in one line whether the sides can be told apart, and what follows for membership."""
    if not compared.failed:
        measured = sum(outcome.p is not None for outcome in compared.outcomes)
        return (
            f"No difference found by {count(measured, 'check')} at 5 %. This is not proof that "
            "there is none: other features, or more users, may show one."
        )
    names = [str(outcome.check) for outcome in compared.failed]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    if not compared.sides.of_coins:
        return (
            f"The two sets can be told apart without a model, by {listed}: membership of them is "
            "inconclusive: confounded."
        )
    return (
        f"The people in the training file can be told from those kept out of it without a model, "
        f"by {listed}: something changed their texts after the coins, or this is an accident "
        "of at most 1 in 20 unchanged files. Membership by the texts of this file is "
        "inconclusive: confounded."
    )


def _side(side: Side) -> str:
    texts, users = sum(map(len, side.users)), len(side.users)
    drawn = f" drawn of {side.every:,}" if side.every > users else ""
    lost = f" ({count(side.lost, 'more user')} with none left)" if side.lost else ""
    return f"{side.name}: {count(texts, 'text')} of {count(users, 'user')}{drawn}{lost}"


def _row(outcome: Outcome) -> tuple[str, ...]:
    if outcome.value is None or outcome.p is None or outcome.chance is None:
        reason = "" if outcome.why is None else _REASONS[outcome.why]
        return "–", outcome.check, "not measured", "", "", "", reason
    return (
        "FAIL" if outcome.failed else "ok",
        outcome.check,
        f"{_STATISTICS[outcome.check]} {number(outcome.value)}",
        f"by chance up to {number(outcome.chance)}",
        f"p = {p_value(outcome.p)}",
        f"adjusted {p_value(outcome.adjusted)}",
        _HIDDEN.get(outcome.check, "") if outcome.largest is None else _gap(outcome.largest),
    )


def _gap(gap: Gap) -> str:
    return f"most: {gap.label}, {share(gap.inside)} in and {share(gap.outside)} out"
