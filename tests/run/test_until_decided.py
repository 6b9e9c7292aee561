"""Audits that ask about people lot by lot, and stop at a leak: the command, without a network."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from audit import api
from audit.core.digest import sha256_of
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.models.endpoint.http import Endpoint, Post
from audit.models.loading import describe, load_tokenizer
from audit.planting import manifest as manifests
from audit.results.words import WEALTH
from audit.verify import verify

FOLDER = EMBEDDED_FOLDER / "public_model"
PEOPLE, URL = 40, "http://127.0.0.1:1/v1"


@dataclass
class Scoring:
    """Stands in for an `Endpoint` that scores prompts: those with a known text above others.

    known: texts that were learnt. healthy: how many requests it answers; None: all.
    """

    known: tuple[str, ...]
    healthy: int | None = None
    tokenizer: Any = field(default_factory=lambda: load_tokenizer(describe(str(FOLDER), FOLDER)))
    asked: list[str] = field(default_factory=list)

    @contextmanager
    def connected(self) -> Iterator[Post]:
        yield lambda path, fields: self.answer(fields)

    def get(self, path: str) -> dict[str, Any]:
        return {"data": [{"id": "m"}]}

    def answer(self, fields: dict[str, Any]) -> dict[str, Any]:
        if len(self.asked) == self.healthy:
            raise UsageError("the server is gone")
        self.asked.append(json.dumps(fields, sort_keys=True))
        prompt = fields["prompt"]
        ids = list(prompt if isinstance(prompt, list) else self.tokenizer.encode(prompt))
        text = self.tokenizer.decode([i for i in ids if i != self.tokenizer.start])
        luck = int(sha256_of(text)[:6], 16) / 16**6
        each = -3.0 - luck + 2.0 * any(one in text for one in self.known)
        echo = bool(fields.get("echo"))
        told = ids if echo else [5] * fields["max_tokens"]
        written = [self.tokenizer.decode([i]) for i in told]
        first = [None] if echo else []
        scored = [each] * (len(told) - len(first))
        logs = {
            "tokens": written if echo else [f"token_id:{i}" for i in told],
            "token_logprobs": [*first, *scored],
            "top_logprobs": [*first, *({"a": one} for one in scored)],
        }
        choice = {"text": "".join(written), "finish_reason": "length", "logprobs": logs}
        usage = {"prompt_tokens": len(ids), "completion_tokens": len(told)}
        return {"model": "m", "choices": [choice], "usage": usage}


@dataclass(frozen=True)
class Audited:
    """run(name, **settings): an audit of the server, by the function behind the command."""

    folder: Path
    server: Scoring

    def run(self, name: str, **settings: Any) -> dict[str, Any]:
        given = {"defense": f"as_is:tokenizer={FOLDER},context=256", "attack": "membership"}
        fixed = {"model": URL, "references": False, "workers": 1, "format": "json"}
        secrets, output = self.folder / "m.json", self.folder / name
        api.run(**{**given, **fixed, **settings}, secrets=secrets, output=output)
        return self.results(name)

    def results(self, name: str) -> dict[str, Any]:
        """All that a run says, but for how long it took."""
        document: dict[str, Any] = json.loads(
            (self.folder / name / "results.json").read_text("utf-8")
        )
        document["environment"] = None
        for release in document["releases"]:
            release["cost"]["seconds"] = None
        return document


def served(folder: Path, patch: pytest.MonkeyPatch, leaks: bool) -> Audited:
    """Plant records of people, and serve a model that knows those of heads, or none of them."""
    planted = folder / "p.jsonl", folder / "m.json"
    if not planted[1].exists():
        api.plant("helpdesk", *planted, kind=("record",), count=PEOPLE, seed=4)
    manifest = manifests.read(planted[1])
    known = (s.value for s in manifest.secrets if leaks and manifest.coins.planted(s))
    server = Scoring(tuple(known))
    patch.setattr(Endpoint, "connected", lambda self: server.connected())
    patch.setattr(Endpoint, "get", lambda self, path: server.get(path))
    return Audited(folder, server)


def of_bets(document: dict[str, Any]) -> list[dict[str, Any]]:
    (release,) = document["releases"]
    return [f for f in release["findings"] if f["unit"] == WEALTH and f["value"] is not None]


def test_strong_leak_stops_early_and_is_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = served(tmp_path, monkeypatch, leaks=True)
    document = audited.run("o", until="decided", format=["json", "html"])
    requests = len(audited.server.asked)
    (release,) = document["releases"]
    assert release["leaked"] == "leak" and document["plan"]["lots"] == 10
    asked = {sum(size > 0 for size in bet["sizes"]) for bet in of_bets(document)}
    assert len(asked) == 1 and max(asked) < 7
    assert {f["leaked"] for f in release["findings"] if f["unit"] != WEALTH} == {
        *("inconclusive", "not measured")
    }
    assert not any(f["epsilon_lower"] for f in release["findings"])
    (warning,) = (w for w in document["warnings"] if "a leak was decided after lot" in w)
    assert "they overstate the leak" in warning
    page = (tmp_path / "o" / "report.html").read_text("utf-8")
    assert re.search(r"after \d+ people", page) and "made 123 of 1," in page
    assert "record loss bets turned 1 into" in document["headline"][0]
    assert "--until decided" in document["reproduce"]
    assert verify(tmp_path / "o").differences == ()
    audited.run("all")
    assert requests < 0.7 * (len(audited.server.asked) - requests)


def test_killed_audit_asks_nothing_twice_and_ends_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = served(tmp_path, monkeypatch, leaks=True)
    whole, server = audited.run("whole", until="decided"), audited.server
    asked, server.asked = server.asked, []
    assert len(asked) == len(set(asked))
    for healthy in (9, 23, 30):
        server.healthy = healthy
        with pytest.raises(UsageError, match="is gone"):
            audited.run("killed", until="decided")
    server.healthy = None
    assert audited.run("killed", until="decided") == whole
    assert server.asked == asked


def test_without_a_leak_all_people_are_tested_at_half_the_level(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audited = served(tmp_path, monkeypatch, leaks=False)
    document = audited.run("o", until="decided")
    requests = len(audited.server.asked)
    plain = audited.run("plain")
    assert len(audited.server.asked) == 2 * requests  # none more than without
    (release,), (beside,) = document["releases"], plain["releases"]
    assert release["leaked"] != "leak" and release["tests"] == 2 * beside["tests"]
    assert {bet["n"] for bet in of_bets(document)} == {PEOPLE}
    for one in beside["findings"]:
        (same,) = (f for f in release["findings"] if f["metric"] == one["metric"])
        assert (same["value"], same["n"], same["p_value"]) == (
            *(one["value"], one["n"], one["p_value"]),
        )
    assert verify(tmp_path / "o").differences == ()
    evidence = tmp_path / "o" / "evidence.json"
    evidence.write_text(evidence.read_text("utf-8").replace('"lots":10', '"lots":5'))
    assert any("lots, planned are 10" in line for line in verify(tmp_path / "o").differences)


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"attack": "ngram"}, "bets on scores that are read of each person"),
    ({"looks": 3}, "--until decided and --looks"),
    ({"until": "never"}, "--until is 'never'; it can be decided"),
]


def test_what_cannot_be_decided_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited = served(tmp_path, monkeypatch, leaks=True)
    for settings, line in REFUSED:
        with pytest.raises(UsageError, match=line):
            audited.run("o", **{"until": "decided", **settings})
    with pytest.raises(UsageError, match="audited by as_is"):
        api.run(defense="none", attack="membership", until="decided", output=tmp_path / "o")
    monkeypatch.setattr("tests.run.test_until_decided.PEOPLE", 19)
    (tmp_path / "few").mkdir()
    few = served(tmp_path / "few", monkeypatch, leaks=True)
    with pytest.raises(UsageError, match="10 lots, and 19 have coins; plant 20"):
        few.run("o", until="decided")
    assert audited.server.asked == []
