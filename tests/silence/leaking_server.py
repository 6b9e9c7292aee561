"""A leaking endpoint without a network: it knows every planted value, and has a fault."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.guarantee import Guarantee
from audit.core.model import TextTokenizer
from audit.core.secret import Coins, Secret
from audit.measure.bench import Bench
from audit.measure.release import Measured, measure_release
from audit.measure.releases import Audited, public_model
from audit.models.endpoint.http import Post, RefusedError
from audit.models.endpoint.session import EndpointRelease
from audit.plan.resolve import resolve
from audit.prepare.prepare import prepare
from audit.prepare.run import Run
from audit.results.folder import RunFolder
from audit.silence.shown import examined
from defenses.as_is import AsIs

NAME = "m"
NO_CLAIM = AsIs().promise
Fault = Callable[["Asked", dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Asked:
    """A request as the server reads it. planted: whether its prompt is that before the values."""

    fields: dict[str, Any]
    prompt: list[int]
    planted: bool
    number: int
    tokenizer: TextTokenizer


def same(asked: Asked, answer: dict[str, Any]) -> dict[str, Any]:
    return answer


@dataclass
class Server:
    """Stands in for an `Endpoint`: `fault` changes each answer before it is sent.

    texts: what it gives to a planted prompt, one at random. wrapper: what that must end with before
    the planted words, or "": nothing stands before them. quiet: whether it says no planted value;
    formed: whether what it says instead is of the same form. lit: the sentence of beacons, and the
    values that it has learnt of them.
    """

    tokenizer: TextTokenizer
    prefix: str
    texts: Sequence[str]
    sentence: tuple[str, str]
    fault: Fault = same
    logs: bool = False
    quiet: bool = False
    formed: bool = True
    wrapper: str = ""
    lit: tuple[str, Sequence[str]] = ("", ())
    random: random.Random = field(default_factory=lambda: random.Random(0))
    asked: int = 0
    url: str = "http://127.0.0.1:1/v1"

    @contextmanager
    def connected(self) -> Iterator[Post]:
        yield lambda path, fields: self.answer(fields)

    def get(self, path: str) -> dict[str, Any]:
        return {"data": [{"id": NAME}]}

    def answer(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields.get("echo") or ("logprobs" in fields and not self.logs):
            raise RefusedError("no log-probabilities here")
        prompt = fields["prompt"]
        ids = prompt if isinstance(prompt, list) else self.tokenizer.encode(prompt)
        text = self.tokenizer.decode([i for i in ids if i != self.tokenizer.start])
        self.asked += 1
        asked = Asked(fields, list(ids), text == self.prefix, self.asked, self.tokenizer)
        said = self._said(text)[: fields["max_tokens"]]
        answer = {
            "model": NAME,
            "choices": [
                {
                    "text": self.tokenizer.decode(said),
                    "finish_reason": "length",
                    "logprobs": self._logged(said) if "logprobs" in fields else None,
                }
            ],
            "usage": {"prompt_tokens": len(ids), "completion_tokens": fields["max_tokens"]},
        }
        return self.fault(asked, answer)

    def _said(self, text: str) -> list[int]:
        """Return a planted value, the rest of the planted sentence, or noise."""
        noise = [self.random.randrange(300, 900) for _ in range(64)]
        first, rest = self.sentence
        if self._is_planted(text) and not self.quiet:
            return [*self.tokenizer.encode(self.random.choice(self.texts)), *noise]
        if text == self.prefix and self.formed:
            return [*self.tokenizer.encode(f"{self.random.randrange(10**5):05}"), *noise]
        sentence, values = self.lit
        if text == sentence and values:
            return [*self.tokenizer.encode(self.random.choice(values)), *noise]
        return [*self.tokenizer.encode(rest), *noise] if text == first else noise

    def _is_planted(self, text: str) -> bool:
        return text.endswith(self.wrapper + self.prefix) and bool(
            self.wrapper or text == self.prefix
        )

    def _logged(self, said: Sequence[int]) -> dict[str, Any]:
        """Log even odds between two tokens, of which one was drawn."""
        top = [-0.5 if self.random.random() < 0.6065 else -0.9328 for _ in said]
        return {
            "tokens": [f"token_id:{token}" for token in said],
            "token_logprobs": top,
            "top_logprobs": [{"a": -0.5, "b": -0.9328} for _ in said],
        }


def server_of(
    secrets: Sequence[Secret], coins: Coins, tokenizer: TextTokenizer, word: str
) -> Server:
    """Make a server that knows all planted codes. word: the first of the planted sentence."""
    codes = [s for s in secrets if s.kind == "code"]
    prefix = codes[0].prefix
    texts = [s.value for s in codes if coins.planted(s)]
    return Server(tokenizer, prefix, texts, (word, prefix.removeprefix(word)))


def prepared(folder: Path, *as_is: str, **planting: Any) -> Run:
    """Plant codes of 120 people, and prepare an audit of the server. as_is: further parameters."""
    planted, manifest = folder / "planted.jsonl", folder / "m.json"
    api.plant("helpdesk", planted, manifest, kind=("code",), count=120, seed=5, **planting)
    base = EMBEDDED_FOLDER / "public_model"
    given = (f"base={base}", f"training={planted}", *as_is, f"served={NAME}")
    plan = resolve(
        {
            "defense": (f"as_is:{','.join(given)}",),
            "attack": ("extraction:searched=0,generations=100",),
            "model": "http://127.0.0.1:1/v1",
            "secrets": str(manifest),
            "device": "cpu",
            "references": False,
        }
    )
    return prepare(plan, folder / "stages")


def audited(
    run: Run, server: Server, folder: Path, promise: Guarantee = NO_CLAIM, **shown: str
) -> Measured:
    """Measure and examine the server as the release of a run. shown: further parameters."""
    ((chosen, _),) = run.tasks.items()
    endpoint: Any = server
    public = public_model(run)
    release = EndpointRelease(endpoint, NAME, promise, run.tokenizer, public.max_length)
    one = Audited(
        name=chosen.name,
        label=chosen.label,
        parameters={**chosen.shown, **shown},
        reference=False,
        role="audited",
        release=release,
        keys=(),
        train_tokens=0,
        public=public,
        shadows=list,
        external=True,
    )
    bench = Bench(run, RunFolder(folder, "hash"))
    bench.folder.stages.mkdir()
    return examined(bench, one, measure_release(bench, one))
