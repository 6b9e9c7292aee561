"""Measures the overhead of the eight one-pass membership scores over the two passes they need.

    python benchmarks/membership.py

Time: all eight scores over one bare pass of the release and one of the public model; at most 1.3.
Memory: growth of the peak from 1,000 records to 10,000.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from itertools import cycle, islice

import numpy as np
import torch

from attacks.membership import Membership
from audit.core.attack import Knowledge
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.core.predictor import record_tokens
from audit.core.secret import Secret
from audit.corpora import loading
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights

ROUNDS = 5
AT_MOST = 1.3


def main() -> None:
    torch.set_num_threads(1)
    session, stream = opened(), np.random.default_rng(0)
    knowledge = Knowledge(session, (), (), (), stream)
    secrets = records(10_000)

    def attack(n: int) -> None:
        Membership().run(session, secrets[:n], knowledge)

    few = [record_tokens(session.tokenizer, secret.text) for secret in secrets[:2000]]
    heads, tails = [tokens[:1] for tokens in few], [tokens[1:] for tokens in few]

    def bare() -> None:
        session.score(heads, tails)
        session.score(heads, tails)

    attack(1000)
    before = peak()
    attack(10_000)
    growth = peak() - before
    timed = [(seconds(bare), seconds(lambda: attack(2000))) for _ in range(ROUNDS)]
    passes, whole = (min(column) for column in zip(*timed, strict=True))
    print(f"records                    2,000 of {np.mean([len(t) for t in few]):.0f} tokens")
    print(f"two bare passes            {passes:.2f} s")
    print(f"all eight scores           {whole:.2f} s")
    print(f"ratio                      {whole / passes:.2f} (at most {AT_MOST})")
    print(f"peak memory                {before:.0f} MiB for 1,000, +{growth:.0f} MiB for 10,000")


def opened() -> OpenSession:
    folder = describe("embedded", EMBEDDED_FOLDER)
    weights = load_weights(folder, "cpu")
    model = CausalLM(weights, load_tokenizer(folder), folder.max_length)
    return OpenSession(model, np.random.default_rng(0))


def records(n: int) -> list[Secret]:
    """Repeats the embedded corpus, with a different number in each record."""
    texts = [record.text for record in loading.load("helpdesk", EMBEDDED_FOLDER).records]
    numbered = (f"{text} #{i}" for i, text in enumerate(islice(cycle(texts), n)))
    return [Secret("record", "", text, "", None, 1, text, 0) for text in numbered]


def seconds(work: Callable[[], None]) -> float:
    """Measures CPU time of this process on one thread, which a shared machine changes little."""
    start = time.process_time()
    work()
    return time.process_time() - start


def peak() -> float:
    """Measures the peak memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
