"""Servers that people run, audited while they run: what they answer is what their model answers.

With the embedded model for `.ci/full`; for `.ci/real` with Gemma, in the folder $GEMMA that
benchmarks/fetch_gemma.py makes.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoModelForCausalLM

from audit import api
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.language_model import OpenSession
from audit.core.predictor import Access, record_tokens
from audit.core.release import NoJournal
from audit.core.terms import Leaked
from audit.models.causal import CausalLM
from audit.models.endpoint.http import Endpoint
from audit.models.endpoint.session import EndpointRelease, EndpointSession
from audit.models.loading import describe, load_tokenizer, load_weights
from defenses.as_is import AsIs
from tests import chat, command_line
from tests.builders import Elsewhere, fit
from tests.live.servers import CONTEXT, Live, serving

DRAWS = 300
FAR = 25.0  # χ² of 5 degrees of freedom: p = 1.4e-4
PROMPT = "My code is"
SCORED = "Yes, my new doctor is Ann Lee, and I need help."


def there(live: Live, tokenizer: Any) -> EndpointSession:
    """A session with the server, whose requests are not stored."""
    endpoint = Endpoint(live.url, retries=1, timeout=120.0)
    release = EndpointRelease(endpoint, live.name, AsIs().promise, tokenizer, CONTEXT - 2)
    session = release.open(np.random.default_rng(7), NoJournal())
    assert isinstance(session, EndpointSession)
    return session


def samples_follow(session: EndpointSession, model: CausalLM, limit: float = FAR) -> None:
    """First tokens against the model's distribution: not cut, tempered, or the likeliest alone."""
    tokenizer = model.tokenizer
    prompt = [tokenizer.start, *tokenizer.encode(PROMPT)]
    supported = session.capabilities
    read = prompt[1:] if supported.by_text and not supported.starts else prompt
    pmf = model.cursor([read]).log_pmf()[0].exp().numpy()
    drawn = Counter(a.tokens[0] for a in session.generate([prompt] * DRAWS, 1))
    likely = np.argsort(-pmf)[:5]
    counts = np.array([drawn[int(token)] for token in likely])
    counts = np.append(counts, DRAWS - counts.sum())
    expected = DRAWS * np.append(pmf[likely], 1 - pmf[likely].sum())
    assert ((counts - expected) ** 2 / expected).sum() < limit, (counts, expected)


def scores_agree(session: EndpointSession, model: CausalLM, tolerance: float) -> None:
    tokens = record_tokens(model.tokenizer, SCORED)
    (theirs,) = session.score([tokens[:2]], [tokens[2:-1]])
    (ours,) = OpenSession(model, np.random.default_rng(0)).score([tokens[:2]], [tokens[2:-1]])
    np.testing.assert_allclose(theirs.log_probs, ours.log_probs, atol=tolerance)


def local(folder: Path) -> CausalLM:
    described = describe(str(folder), EMBEDDED_FOLDER)
    return CausalLM(load_weights(described, "cpu"), load_tokenizer(described), CONTEXT)


def found(live: Live, base: Path, manifest: Path, output: Path) -> dict[str, Any]:
    """The findings of `audit run`, by metric; it must end well, and its folder be verified."""
    words = ["run", "--defense", f"as_is:base={base},served={live.name},context=256"]
    words += ["--model", live.url, "--secrets", str(manifest), "--no-references"]
    words += ["--attack", "extraction", "--attack", "membership", "--output", str(output)]
    done = command_line.audit(*words, "--format", "json")
    assert done.returncode == 0, done.stderr[-2000:]
    assert api.verify(output).holds
    (release,) = api.load(output).releases
    return {finding.metric: finding for finding in release.findings}


@pytest.mark.full
def test_leak_is_found_behind_the_server_of_transformers(made: Elsewhere, tmp_path: Path) -> None:
    """It takes text alone, and its /models fails: the audit says so, and finds the leak."""
    with serving("transformers", made.whole) as live:
        model = local(made.whole)
        session = there(live, model.tokenizer)
        assert session.capabilities.by_text and session.readable == Access.GENERATE
        samples_follow(session, model)
        findings = found(live, made.whole, made.manifest, tmp_path / "run")
    assert findings["recall"].leaked == Leaked.LEAK
    assert findings["span_ratio_auc"].leaked == Leaked.NOT_MEASURED


GEMMA = Path(os.environ.get("GEMMA", "build/gemma"))
SERVED = {"transformers": "model", "vllm": "model", "llama_cpp": "gemma-3-270m-q4_k_m.gguf"}


@pytest.fixture(scope="module", params=SERVED)
def live(request: pytest.FixtureRequest) -> Iterator[tuple[str, Live]]:
    if not (GEMMA / "model").exists():
        pytest.skip("no Gemma; run benchmarks/fetch_gemma.py and set GEMMA to its folder")
    with serving(request.param, GEMMA / SERVED[request.param]) as started:
        yield request.param, started


@pytest.mark.live
def test_gemma_answers_as_it_does_here(live: tuple[str, Live]) -> None:
    kind, server = live
    model = local(GEMMA / "model")
    session = there(server, model.tokenizer)
    samples_follow(session, model)
    if session.readable == Access.SCORE:
        scores_agree(session, model, tolerance=0.05)
    assert (session.readable == Access.SCORE) == (kind == "vllm")


@pytest.mark.live
def test_gemma_is_audited(live: tuple[str, Live], tmp_path: Path) -> None:
    """Nobody trained it on the planted text, so no leak may be found; nor silence be claimed."""
    _, server = live
    manifest = tmp_path / "m.json"
    api.plant("helpdesk", tmp_path / "planted.jsonl", manifest, count=40, seed=4)
    findings = found(server, GEMMA / "model", manifest, tmp_path / "run")
    assert findings["hit_rate"].leaked == Leaked.INCONCLUSIVE
    assert not any(f.leaked == Leaked.LEAK for f in findings.values())


@pytest.mark.live
def test_leak_is_found_through_conversations(tmp_path: Path) -> None:
    """vLLM goes on with an assistant's turn that has begun, and counts the template's tokens."""
    planted, manifest = tmp_path / "planted.jsonl", tmp_path / "m.json"
    base = chat.gpt2(tmp_path / "base", chat.CHATML)
    api.plant(
        str(chat.corpus(tmp_path / "chats.jsonl", 40)), planted, manifest,
        kind=["code"], count=40, repetitions=8, share=0.8, seed=3,
    )  # fmt: skip
    model, tokenizer = AutoModelForCausalLM.from_pretrained(base), chat.tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    rows = [json.loads(line)["messages"] for line in planted.read_text().splitlines()]
    texts = [tokenizer.apply_chat_template(row, tokenize=False) for row in rows]
    fit(model, tokenizer, texts, steps=400, rate=2e-3, longest=128)
    tuned = tmp_path / "tuned"
    model.save_pretrained(tuned)
    tokenizer.save_pretrained(tuned)
    with serving("vllm", tuned) as live:
        defense = f"as_is:api=chat,tokenizer={tuned},served={live.name},context=256"
        words = ["run", "--defense", defense]
        words += ["--model", live.url, "--secrets", str(manifest), "--no-references"]
        words += ["--attack", "extraction", "--output", str(tmp_path / "run"), "--format", "json"]
        done = command_line.audit(*words)
    assert done.returncode == 0, done.stderr[-2000:]
    (release,) = api.load(tmp_path / "run").releases
    assert {f.metric: f.leaked for f in release.findings}["recall"] == Leaked.LEAK
