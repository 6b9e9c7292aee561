"""Serves an exported service from Python: one session whose ledger outlives its process.

A budget is spent once: what an earlier process answered stays spent, whatever is asked now.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

import numpy as np

from audit.core.defense import Defense
from audit.core.digest import digest_of_json, sha256_of_file
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.files import read_json
from audit.core.guarantee import Guarantee
from audit.core.lora import parsed
from audit.core.predictor import Predictor, before
from audit.core.release import Release
from audit.core.training import Trained, Training
from audit.measure.releases import loaded
from audit.models.causal import CausalLM
from audit.models.loading import describe, load_tokenizer, load_weights
from audit.models.training.fine_tuning import Recipe
from audit.plugins import registry
from audit.results.digests import member_name
from audit.run import served_ledger

SERVICE, GUARANTEE = "service.json", "guarantee.json"
PUBLIC, MEMBERS = "public", "members"  # folders


@dataclass(frozen=True)
class Opened:
    """An exported service. hash: of its settings, corpus and weights, which a ledger belongs to."""

    release: Release
    public: CausalLM
    hash: str


@final
class Service:
    """One session with a service, in the process that opened it. Only sampled text leaves it.

    Threads take turns: charge, record and answer are one transaction. A transaction that fails
    ends the session.
    """

    def __init__(self, opened: Opened, predictor: Predictor, spent: int) -> None:
        """Open a session. spent: queries of earlier processes, which the ledger counts first."""
        self._opened, self._predictor, self._spent = opened, predictor, spent
        self._process, self._turn, self._closed = os.getpid(), threading.Lock(), False

    @property
    def guarantee(self) -> Guarantee:
        """Promise for all that this ledger's session answers."""
        return self._opened.release.guarantee

    @property
    def remaining(self) -> int | None:
        """Queries (tokens) that are left of the public budget; None: without limit.

        After them the public model answers alone.
        """
        left = self._predictor.remaining
        return None if left is None else max(0, left - self._spent)

    def complete(self, text: str, tokens: int) -> str:
        """Continue a text by at most so many sampled tokens, each a query.

        Raises UsageError, also in another process than the one that opened the service, and after
        the service's block.
        """
        tokenizer, longest = self._predictor.tokenizer, self._predictor.max_length
        prompt = [tokenizer.start, *tokenizer.encode(text)]
        if tokens < 1:
            raise UsageError(f"tokens is {tokens}; it must be at least 1")
        if len(prompt) + tokens > longest:
            raise UsageError(
                f"the text has {len(prompt)} tokens; with {tokens} more it exceeds the {longest} "
                "that the model reads"
            )
        with self._transaction():
            (answer,) = self._predictor.generate([prompt], tokens)
            self._spent = 0  # the ledger has counted them now
        return self._opened.public.tokenizer.decode(before(tokenizer.stop, answer.tokens))

    def close(self) -> None:
        """Answer nothing from here on; a transaction under way ends first."""
        if os.getpid() == self._process:
            with self._turn:
                self._closed = True

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        if os.getpid() != self._process:  # before the lock, which a fork may have copied locked
            raise UsageError(
                "this service was opened by another process; send questions to that process"
            )
        with self._turn:
            if self._closed:
                raise UsageError("this service is closed; open it again with api.serve")
            try:
                yield
            except BaseException:
                self._closed = True  # memory may count other charges than the ledger
                raise


@contextlib.contextmanager
def serve(folder: Path, ledger: Path) -> Iterator[Service]:
    """Open a service with its ledger in a folder of its own, made at first use.

    Raises UsageError for a folder that is not an exported service, or a ledger that is not the one
    of this service as it was last left, or that another process uses.
    """
    service = opened(folder)
    with served_ledger.held(ledger, service.hash) as journal:
        spent = sum(not row["stopped"] for row in journal.rows)
        predictor = service.release.open(np.random.default_rng(), journal)
        one = Service(service, predictor, spent)
        try:
            yield one
        finally:
            one.close()


def opened(folder: Path) -> Opened:
    """Load an exported service. Its randomness is the operating system's. Raises UsageError."""
    try:
        document = read_json(folder / SERVICE)
        name, given, members = (document[key] for key in ("defense", "parameters", "members"))
        members = list(members)
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(
            f"{folder}: is no exported service; `audit export RUN RELEASE {folder}` makes one"
        ) from None
    for i, weights in enumerate(members):
        if weights not in (None, member_name(i)):
            raise UsageError(f"{folder / SERVICE}: {weights!r} is not the name of member {i}")
        if weights and not (folder / MEMBERS / weights).is_file():
            raise UsageError(f"{folder / MEMBERS / weights}: is not there; export it again")
    given_lora = document.get("lora")
    lora = None if given_lora is None else parsed(str(given_lora))
    described = replace(describe(str(folder / PUBLIC), EMBEDDED_FOLDER), lora=lora)
    public = CausalLM(
        load_weights(described, "cpu"), load_tokenizer(described), described.max_length
    )
    defense = _defense(name, given)
    trained = [
        Trained(
            Training(f"member {i}", (), Recipe(0, 1.0, 1, described.max_length), seed=0),
            public if weights is None else loaded(public, folder / MEMBERS / weights, "cpu", lora),
        )
        for i, weights in enumerate(members)
    ]
    release = defense.release(public, trained)
    promised = document.get("guarantee")
    if promised is not None and promised != json.loads(_text(release.guarantee)):
        raise UsageError(f"{folder}: promises other than this version computes; export it again")
    return Opened(release, public, _identity(folder, document, described.sha256))


def _identity(folder: Path, document: dict[str, Any], public: str) -> str:
    """Hash all that an answer depends on: settings, the corpus, the public model, each member."""
    named = enumerate(document["members"])
    members = [
        weights and sha256_of_file(folder / MEMBERS / member_name(i)) for i, weights in named
    ]
    settings = {key: value for key, value in document.items() if key != "guarantee"}
    return digest_of_json({"settings": settings, "public": public, "members": members})


def _defense(name: str, given: dict[str, Any]) -> Defense:
    cls = registry.plugin("defenses", name, Defense)  # type: ignore[type-abstract]
    fields = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items() if k in fields}
    made = cls(**values)
    return dataclasses.replace(made, source="system") if "source" in fields else made  # type: ignore[type-var]


def _text(guarantee: Guarantee) -> str:
    return json.dumps(dataclasses.asdict(guarantee), default=str)
