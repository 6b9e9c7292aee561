"""Makes the corpora of scales medium, real and paper from public ones, by a hash of their users.

    python -m experiments.data DATA OUT [--scale real|paper]

DATA holds what a scale reads, as its authors give it: wikitext2_raw, customersim and
wmt_europarl_mix for medium; wikitext2_raw for real; airdialogue, wmt_europarl_mix and wikitext-2
for paper. OUT gets a file NAME.jsonl for each, with user, text and split, and names.txt with the
names of private users, where they have some. Public records are sentences of other speakers, whose
beginnings SeqPATE completes; those of named.jsonl name no private user, and those of paper's
Europarl hold no private sentence.
The public model of scale medium lies in OUT/public_model and comes from

    python fixtures/train_public_model.py --text NOVELS --strangers 0 --layers 4 --width 256
        --vocabulary 4096 --output OUT/public_model
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from audit.core.corpus import Corpus
from audit.core.digest import sha256_of
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora.loading import load

ALL = None  # all users that are not public, all words of a user


@dataclass(frozen=True)
class Size:
    """The part of a corpus that is taken: users of each kind, and words of each user.

    A user's records are taken until they have so many words. apart: whether public records are left
    out that name a private user or hold a private record. after: users of each split that come
    first and are left out.
    """

    folder: str
    private: int | None
    heldout: int | None
    public: int
    words: int | None = ALL
    apart: bool = False
    after: int = 0


SIZES = {
    "medium": {  # a user of WikiText is about as long as SubMix's, a block of 512 tokens
        "wikitext": Size("wikitext2_raw", 128, 40, 0, words=300),
        "few": Size("wikitext2_raw", 24, 10, 0, words=60),  # among whom planted codes are much
        "customersim": Size("customersim", 400, 80, 100),
        "named": Size("customersim", 400, 80, 100, apart=True),  # whose names are sought
        "tuning": Size("customersim", 400, 80, 100, after=500),  # customers of no claim
        "europarl": Size("wmt_europarl_mix", 300, 60, 100, words=120),
    },
    "real": {"wikitext": Size("wikitext2_raw", 128, 40, 0, words=300)},  # the texts of medium
    "paper": {  # about 4 % are public, as 40,000 of a million utterances of SeqPATE's
        "airdialogue": Size("airdialogue", ALL, ALL, 380),
        "few": Size("wikitext-2", 24, 10, 0, words=60),
        "europarl": Size("wmt_europarl_mix", ALL, ALL, 800, apart=True),
    },
}


def split_of(corpus: Corpus, size: Size) -> dict[str, str]:
    """Chooses users by a hash of their id: private and held-out ones of their splits.

    Those who are public are taken from the private split, and are private no more.
    """
    ranked, others = (
        sorted(corpus.users(split), key=sha256_of)[size.after :] for split in ("private", "heldout")
    )
    border = len(ranked) - size.public if size.private is ALL else size.private
    return {
        **dict.fromkeys(ranked[border : border + size.public], "public"),
        **dict.fromkeys(ranked[:border], "private"),
        **dict.fromkeys(others[: size.heldout], "heldout"),
    }


def rows(corpus: Corpus, size: Size) -> Iterator[dict[str, str]]:
    """Return the records of the chosen users."""
    split, taken = split_of(corpus, size), Counter[str]()
    chosen = replace(
        corpus, records=tuple(replace(r, split=split.get(r.user, "")) for r in corpus.records)
    )
    names = {record.name for record in chosen.of("private") if record.name}
    for record in chosen.records:
        if size.apart and record.split == "public" and _tells(record.text, chosen, names):
            continue
        if record.split and (size.words is ALL or taken[record.user] < size.words):
            taken[record.user] += len(record.text.split())
            row = {"user": record.user, "split": record.split, "text": record.text}
            yield row | ({"name": record.name} if record.name else {})


def _tells(text: str, corpus: Corpus, names: Collection[str]) -> bool:
    """Return whether a text holds one of these names, or a private text of the corpus."""
    return any(name in text for name in names) or corpus.owner_of(text) is not None


def main() -> None:
    """Write the corpora."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--scale", choices=SIZES, default="medium")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, size in SIZES[options.scale].items():
        some = list(rows(load(str(options.data / size.folder), EMBEDDED_FOLDER), size))
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in some]
        (options.out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(some):,} records")
        names = {row["name"] for row in some if row["split"] == "private" and "name" in row}
        if names:
            text = "".join(f"{one}\n" for one in sorted(names))
            (options.out / "names.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
