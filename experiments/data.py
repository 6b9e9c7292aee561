"""Makes the corpora of scale medium from public ones: fewer users, chosen by a hash.

    python -m experiments.data DATA OUT

DATA holds wikitext2_raw, customersim and wmt_europarl_mix as their authors give them. OUT gets
wikitext.jsonl, customersim.jsonl and europarl.jsonl, each with user, text and split, and names.txt
with the names of CustomerSim's private users. Public records are sentences of other speakers, whose
beginnings SeqPATE completes. The public model of this scale lies in OUT/public_model and comes from

    python fixtures/train_public_model.py --text NOVELS --strangers 0 --layers 4 --width 256
        --vocabulary 4096 --output OUT/public_model
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from audit.core.corpus import Corpus
from audit.core.digest import sha256_of
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora.loading import load

# folder, private users, held-out users, public users
SIZES = {
    "wikitext": ("wikitext2_raw", 64, 20, 0),
    "customersim": ("customersim", 900, 150, 150),
    "europarl": ("wmt_europarl_mix", 400, 60, 100),
}


def split_of(corpus: Corpus, private: int, heldout: int, public: int) -> dict[str, str]:
    """Chooses the first users of the private split and of the held-out one by a hash of their id.

    The next of the private split are public.
    """
    ranked, others = (sorted(corpus.users(s), key=sha256_of) for s in ("private", "heldout"))
    return {
        **dict.fromkeys(ranked[private : private + public], "public"),
        **dict.fromkeys(ranked[:private], "private"),
        **dict.fromkeys(others[:heldout], "heldout"),
    }


def rows(corpus: Corpus, private: int, heldout: int, public: int) -> list[dict[str, str]]:
    """Gives the records of the chosen users."""
    split = split_of(corpus, private, heldout, public)
    return [
        {"user": r.user, "split": split[r.user], "text": r.text}
        | ({"name": r.name} if r.name else {})
        for r in corpus.records
        if r.user in split
    ]


def main() -> None:
    """Writes the corpora."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (folder, *users) in SIZES.items():
        some = rows(load(str(options.data / folder), EMBEDDED_FOLDER), *users)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in some]
        (options.out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(some):,} records")
        names = {row["name"] for row in some if row["split"] == "private" and "name" in row}
        if names:
            text = "".join(f"{one}\n" for one in sorted(names))
            (options.out / "names.txt").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
