"""Writes stand-ins of the papers' models and corpora, of their sizes, for dry runs of claims.

    python benchmarks/paper_sizes.py DATA OUT
    python -m experiments.data OUT OUT --scale paper
    python -m experiments CLAIM… --scale paper --data OUT --dry-run

DATA holds wikitext2_raw, customersim and wmt_europarl_mix. OUT gets these (wikitext-2), and
wikitext-103: WikiText-2 under new titles, 47 times; wmt_europarl_mix: its sentences under new
numbers, 190 times; airdialogue: 402,038 simulated dialogues of 9,500 invented people; gpt2: random
weights, and byte pairs of WikiText-2. A dry run of them says what a run of the real ones would
take. What such a run would find means nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

from large_models import random_model, tokenizer  # from this folder

sys.path.append(str(Path(__file__).parents[1] / "fixtures"))
from airdialogue import AGENDAS, customers, dialogue
from customersim import SURNAMES

COPIED = {
    "wikitext-2": "wikitext2_raw",
    "wikitext-103": "wikitext2_raw",
    "customersim": "customersim",
    "wmt_europarl_mix": "wmt_europarl_mix",
}
COPIES = 47  # 103 million words in WikiText-103, 2.1 million in WikiText-2
SENTENCES = 190  # copies of 10,000: Europarl v6 has 1.9 million in English
PEOPLE, DIALOGUES = 9_500, 402_038
_TITLE = re.compile(r"^ = ([^=].*) = $", re.MULTILINE)


def copied(text: str) -> Iterator[str]:
    """Return WikiText-2 again and again, each time under titles of its own."""
    for copy in range(COPIES):
        yield _TITLE.sub(rf" = \1, {copy} = ", text)


def sentences(text: str) -> Iterator[str]:
    """Return the sentences of Europarl again and again, each time with a number."""
    for copy in range(SENTENCES):
        yield "".join(f"{line} , no. {copy} .\n" for line in text.splitlines())


def dialogues() -> Iterator[str]:
    """Return lines of AirDialogue's form."""
    rng = Random(0)
    people = customers(rng, PEOPLE, SURNAMES)
    for _ in range(DIALOGUES):
        one = rng.choice(people)
        turns = dialogue(rng, one, rng.choice(sorted(AGENDAS))).split("\n")
        yield json.dumps({"dialogue": turns, "intent": {"name": one.name}}) + "\n"


def main() -> None:
    """Write all of them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    for name, source in COPIED.items():
        (given.out / name).mkdir(parents=True)
        for path in (given.data / source).iterdir():
            shutil.copyfile(path, given.out / name / path.name)
    small, large = (given.out / f"wikitext-{size}" / "train.txt" for size in (2, 103))
    with large.open("w", encoding="utf-8") as file:
        file.writelines(copied(small.read_text(encoding="utf-8")))
    europarl = given.out / "wmt_europarl_mix" / "src-train.en.txt"
    some = europarl.read_text(encoding="utf-8")
    with europarl.open("w", encoding="utf-8") as file:
        file.writelines(sentences(some))
    (given.out / "airdialogue").mkdir()
    with (given.out / "airdialogue" / "train_data.json").open("w", encoding="utf-8") as file:
        file.writelines(dialogues())
    random_model("gpt2", tokenizer("gpt2", small.parent, given.out), given.out / "gpt2")


if __name__ == "__main__":
    main()
