"""Records with a beginning that is not scored: membership reads the end, extraction the whole."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from attacks.extraction import Extraction
from attacks.membership import Membership
from audit.contract.toys import bigram
from audit.core.attack import Knowledge
from audit.core.evidence import Scores, Successes
from audit.core.language_model import OpenSession
from audit.core.randomness import stream
from audit.core.secret import Secret

MODEL = bigram(1, 3.0)
ECHOES = [Secret("record", "goodmorning", end, "", None, 1, end, 0) for end in ("xq7z", "k0kv9")]


def session() -> OpenSession:
    return OpenSession(MODEL, stream(0, "session"))


def test_the_end_of_a_record_is_scored_after_its_beginning() -> None:
    knowledge = Knowledge(None, (), (), (), stream(0, "attacker"))
    found = Membership().run(session(), ECHOES, knowledge)
    loss = next(e for e in found if isinstance(e, Scores) and e.score == "loss")
    for secret, value in zip(ECHOES, loss.values, strict=True):
        read = [0, *MODEL.tokenizer.encode(secret.text)]
        each = [MODEL.log_table[a, b] for a, b in pairwise(read)]
        assert value == pytest.approx(np.mean(each[len(secret.prefix) :]))


def test_the_second_half_of_the_whole_record_must_follow_from_the_first() -> None:
    most = [int(MODEL.log_table[a].argmax()) for a in range(len(MODEL.log_table))]
    tokens = [MODEL.tokenizer.encode("g")[0]]
    while len(tokens) < 12:
        tokens.append(most[tokens[-1]])
    text = MODEL.tokenizer.decode(tokens)
    followed = Secret("record", text[:9], text[9:], "", None, 1, "u", 0)
    assert text[7] != "x"
    broken = Secret("record", text[:7] + "x" + text[8], text[9:], "", None, 1, "v", 0)
    other = Secret("record", "x" + text[1:9], text[9:], "", None, 1, "w", 0)  # in the first half
    found = Extraction().run(
        session(), [followed, broken, other], Knowledge(None, (), (), (), stream(0, "attacker"))
    )
    won = next(e for e in found if isinstance(e, Successes))
    assert won.won.tolist() == [1.0, 0.0, 1.0]
