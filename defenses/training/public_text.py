"""The public texts of a corpus, for a defense whose guarantee does not cover them."""

from __future__ import annotations

from audit.core.corpus import Corpus
from audit.core.errors import UsageError
from audit.core.guarantee import Guarantee
from audit.core.terms import Relation, Unit

NEVER_READ = Guarantee(
    epsilon=0.0,
    unit=Unit.USER,
    relation=Relation.ADD_OR_REMOVE,
    release="model",
    basis="worst case",
    delta=0.0,
    theorem="the private text is never read",
    conditions=("the public model was not trained on the private text",),
)

CHECKED = (
    "the public texts, and so the pseudo-sentences, contain nothing private; checked only for "
    "whole private records and for marked words of at least 7 characters with a digit"
)


def of(name: str, corpus: Corpus) -> tuple[str, ...]:
    """Return the public texts, or the embedded ones if the corpus has none.

    Raises UsageError if there are none at all, or if one contains private text
    (Corpus.private_in_public).
    """
    records = corpus.of("public")
    if not records and corpus.spare:
        return corpus.spare
    if not records:
        raise UsageError(
            f'{name}: the corpus has no public record; mark some with "split": "public"'
        )
    if corpus.private_in_public is not None:
        where, owner = corpus.private_in_public
        raise UsageError(
            f"{name}: {where or 'a public record'} contains private text of user "
            f"{owner!r}; remove it there, because public text is not protected"
        )
    return tuple(record.text for record in records)
