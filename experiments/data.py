"""Makes the corpora of scale medium from public ones: fewer users, chosen by a hash.

    python -m experiments.data DATA OUT

DATA holds wikitext2_raw, customersim and wmt_europarl_mix as their authors give them. OUT gets
wikitext.jsonl, customersim.jsonl and europarl.jsonl, each with user, text and split. The public
model of this scale comes from fixtures/train_public_model.py --layers 4 --width 256
--vocabulary 4096, and lies in OUT/public_model.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from audit.core.corpus import Corpus
from audit.core.digest import sha256_of
from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora.loading import load

# folder, private users, held-out users
SIZES = {
    "wikitext": ("wikitext2_raw", 120, 20),
    "customersim": ("customersim", 1500, 200),
    "europarl": ("wmt_europarl_mix", 400, 60),
}


def chosen(corpus: Corpus, split: str, count: int) -> set[str]:
    """Chooses the first users of a split by the hash of their id."""
    return set(sorted(corpus.users(split), key=sha256_of)[:count])


def rows(corpus: Corpus, private: int, heldout: int) -> list[dict[str, str]]:
    """Gives the records of the chosen users."""
    kept = {"private": chosen(corpus, "private", private),
            "heldout": chosen(corpus, "heldout", heldout)}  # fmt: skip
    return [
        {"user": r.user, "split": r.split, "text": r.text, **({"name": r.name} if r.name else {})}
        for r in corpus.records
        if r.user in kept.get(r.split, ())
    ]


def main() -> None:
    """Writes the corpora."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for name, (folder, private, heldout) in SIZES.items():
        some = rows(load(str(options.data / folder), EMBEDDED_FOLDER), private, heldout)
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in some]
        (options.out / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        print(f"{name}: {len(some):,} records")


if __name__ == "__main__":
    main()
