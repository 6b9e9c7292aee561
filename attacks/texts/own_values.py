"""Finds values that a policy marks in users' records, such as codes, in what a release writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from attacks.texts.own_runs import Prompt
from attacks.texts.standing import stands_in, users_of, words_of
from audit.core.corpus import Record
from audit.core.predictor import Tokenizer, Tokens

SHORTEST = 5  # letters and digits: shorter values come up by accident


def own_values(users: Collection[str], corpus: Sequence[Record]) -> Mapping[str, set[str]]:
    """Collect the marked values of each of these users that stand with nobody else."""
    values: dict[str, set[str]] = {}
    for record in corpus:
        if record.user in users:
            marked = (record.text[low:high].strip() for low, high in record.private)
            long = {one for one in marked if sum(map(str.isalnum, one)) >= SHORTEST}
            values.setdefault(record.user, set()).update(long)
    stands = users_of({words_of(one) for own in values.values() for one in own}, corpus)
    mine = {
        user: {one for one in own if stands.get(words_of(one)) == {user}}
        for user, own in values.items()
    }
    return {user: own for user, own in mine.items() if own}


def named(
    values: Mapping[str, set[str]], answers: Sequence[tuple[Prompt, Tokens]], tokenizer: Tokenizer
) -> set[str]:
    """Find the users of whom a value came up, whole, after a prompt of theirs that lacks it."""
    found = set()
    for prompt, tokens in answers:
        mine = values.get(prompt.user, set()) if prompt.user not in found else set()
        given, text = (words_of(tokenizer.decode(some)) for some in (prompt.head[1:], tokens))
        if any(stands_in(one, text) and not stands_in(one, given) for one in map(words_of, mine)):
            found.add(prompt.user)
    return found
