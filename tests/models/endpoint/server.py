"""A completions server over a model folder, with a switch for everything that others do wrong.

Run as `python server.py FOLDER`; prints its port. Beside the API it has /switches, whose POST sets
switches and forgets what was asked, and whose GET tells what was asked since.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

torch.set_num_threads(1)
VLLM = (
    *("top_k", "min_p", "repetition_penalty", "repeat_penalty"),
    *("add_special_tokens", "return_tokens_as_token_ids"),
)


@dataclass
class Switches:
    """dialect: "vllm", "llama.cpp", "openai" (knows no other fields), "bare" (text, no more),
        "transformers" (reads text alone, and samples only where `generation_config` says so) or
        "llama-cpp-python" (reads text alone, and refuses with HTTP 500).
    starts: whether a start token is set before a text.
    echo: whether prompts are scored; llama.cpp's are not. least: smallest max_tokens of an echo.
    fail: HTTP status of completions, `times` of them (−1: all), with `after` as Retry-After; the
        first `healthy` ones are answered.
    hang: seconds before each answer. shift: added to every token id, as another vocabulary does.
    merge: reads every so many-th token of a text only. more: tokens that it counts too many there.
    most: tokens that it gives, whatever is asked for.
    goes_on: whether a turn of the assistant that has begun is gone on with, in chat completions.
    stop_at: a token id that ends texts, beside the tokenizer's own. key: what is asked for.
    """

    dialect: str = "vllm"
    echo: bool = True
    least: int = 0
    name: str = "tiny"
    models: bool = True
    starts: bool = False
    others: tuple[str, ...] = ()
    fail: int = 0
    times: int = -1
    healthy: int = 0
    after: str = ""
    said: str = "it failed"
    hang: float = 0.0
    shift: int = 0
    merge: int = 1
    most: int = 10**6
    more: int = 0
    goes_on: bool = True
    stop_at: int = -1
    key: str = ""
    garbage: str = ""
    asked: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    last: dict = field(default_factory=dict)


class RefusedError(Exception):
    def __init__(self, status: int, text: str) -> None:
        self.status, self.text = status, text


class Model:
    def __init__(self, folder: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.inner = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.context = self.inner.config.max_position_embeddings
        self.stop = self.tokenizer.eos_token_id

    @torch.inference_mode()
    def log_probs(self, tokens: list[int]) -> torch.Tensor:
        return self.inner(torch.tensor([tokens])).logits[0].double().log_softmax(-1)

    def text(self, tokens: list[int]) -> str:
        return self.tokenizer.decode(tokens, clean_up_tokenization_spaces=False)


class Handler(BaseHTTPRequestHandler):
    model: Model
    switches = Switches()
    known: ClassVar[dict[tuple[str, ...], dict]] = {}  # answers, which audits repeat
    lock = threading.Lock()
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else each answer waits 40 ms for an acknowledgement

    def log_message(self, *words: object) -> None:
        pass

    def answer(self, status: int, document: object, **headers: str) -> None:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        now = type(self).switches
        if self.path == "/switches":
            self.answer(200, asdict(now))
            return
        now.paths.append(self.path)
        if self.path != "/v1/models" or not now.models:
            self.answer(404, {"detail": "Not Found"})
            return
        entries = [
            {"id": name, "owned_by": "tests", "created": int(time.time() * 1e6)}
            for name in (now.name, *now.others)
        ]
        if now.dialect == "vllm":
            entries[0]["max_model_len"] = self.model.context
        self.answer(200, {"object": "list", "data": entries})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/switches":
            type(self).switches = Switches(**body)
            self.answer(200, {})
            return
        now = type(self).switches
        with self.lock:
            asked = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
            now.asked.append(asked)
            now.paths.append(self.path)
            now.keys.append(self.headers.get("Authorization", ""))
            now.last = body
            failing = now.fail and now.times != 0 and len(now.asked) > now.healthy
            now.times -= bool(failing)
        time.sleep(now.hang)
        if failing:
            headers = {"Retry_After": now.after} if now.after else {}
            self.answer(now.fail, {"error": {"message": now.said}}, **headers)
        elif now.garbage:
            self.answer(200, now.garbage.encode())
        elif now.key and self.headers.get("Authorization") != f"Bearer {now.key}":
            self.answer(401, {"error": {"message": f"no such key: {now.keys[-1]}"}})
        else:
            counted = ("asked", "answered", "paths", "keys", "last", "times")
            same = asked, self.path, repr([v for k, v in vars(now).items() if k not in counted])
            try:
                with self.lock:
                    document = self.known.get(same) or self.complete(body, now)
                    self.known[same] = document
            except RefusedError as refused:
                error = {"error": {"message": refused.text}}
                plain = now.dialect == "transformers"
                self.answer(refused.status, {"detail": refused.text} if plain else error)
            else:
                now.answered.append(asked)
                self.answer(200, document)

    def complete(self, body: dict, now: Switches) -> dict:
        model = self.model
        chats = self.path == "/v1/chat/completions" and model.tokenizer.chat_template
        if self.path != "/v1/completions" and not chats:
            raise RefusedError(404, "Not Found")
        unknown = [f for f in body if f in (*VLLM, "generation_config")]
        if now.dialect == "openai" and unknown:
            raise RefusedError(400, f"Unrecognized request argument supplied: {unknown[0]}")
        if now.dialect == "transformers":
            if unknown := [f for f in body if f in VLLM]:
                raise RefusedError(422, f"Unexpected fields in the request: {unknown}")
            if not chats and not isinstance(body["prompt"], str):
                raise RefusedError(400, "prompt must be a string.")
            body = {**body, "logprobs": None, "echo": None}
        wrong = [isinstance(body.get("prompt"), list), body.get("top_k", 0) < 0]
        if now.dialect == "llama-cpp-python" and any(wrong):
            raise RefusedError(500, f"{sum(wrong)} validation errors: Input should be valid")
        if body["model"] != now.name:
            raise RefusedError(404, f"The model {body['model']} does not exist")
        if body.get("echo") and (not now.echo or now.dialect == "llama.cpp"):
            raise RefusedError(
                500 if now.dialect == "llama.cpp" else 400, "Only no echo is supported"
            )
        prompt = self.said(body, now) if chats else body["prompt"]
        most = min(body["max_tokens"], now.most)
        ids = prompt
        if isinstance(prompt, str):
            ids = [0] * now.starts + model.tokenizer.encode(prompt)[:: now.merge]
        if most < (now.least if body.get("echo") else 1):
            raise RefusedError(400, f"max_tokens must be at least 1, got {most}")
        if len(ids) + most > model.context:
            raise RefusedError(
                400, f"This model's maximum context length is {model.context} tokens"
            )
        tokens, rows, stopped = list(ids), [], False
        random = torch.Generator().manual_seed(body.get("seed", 0))
        greedy = now.dialect == "transformers" and not json.loads(
            body.get("generation_config", "{}")
        ).get("do_sample")
        read = model.log_probs(ids)
        while len(tokens) < len(ids) + most and not stopped:
            rows.append((model.log_probs(tokens) if rows else read)[-1])
            drawn = int(torch.multinomial(rows[-1].exp(), 1, generator=random))
            if greedy:
                drawn = int(rows[-1].argmax())
            tokens.append(drawn)
            stopped = drawn in (model.stop, now.stop_at)
        said = tokens[len(ids) :]
        rows = [*read[:-1], *rows] if body.get("echo") else rows
        told = tokens if body.get("echo") else said
        text = model.text([t for t in told if t not in (model.stop, now.stop_at)])
        choice = {
            "index": 0,
            "text": text,
            "finish_reason": "stop" if stopped else "length",
            "logprobs": self.told(told, rows, body, now) if body.get("logprobs") else None,
        }
        if chats:
            choice["message"] = {"role": "assistant", "content": choice.pop("text")}
            choice["logprobs"] = body.get("logprobs") and self.told(
                told, rows, body, replace(now, dialect="llama.cpp")
            )
        extra = now.more if isinstance(prompt, str) else 0
        usage = {"prompt_tokens": len(ids) + extra, "completion_tokens": len(said)}
        return {"choices": [choice], **({} if now.dialect == "bare" else {"usage": usage})}

    def said(self, body: dict, now: Switches) -> list[int]:
        """The tokens of a conversation; a server that does not go on closes the turn begun."""
        begun = bool(body.get("continue_final_message")) and now.goes_on
        return self.model.tokenizer.apply_chat_template(
            body["messages"], continue_final_message=begun, add_generation_prompt=not begun,
            return_dict=True,
        )["input_ids"]  # fmt: skip

    def told(self, tokens: list[int], rows: list, body: dict, now: Switches) -> dict | None:
        model = self.model
        if now.dialect == "bare":
            return None

        def written(token: int) -> str:
            return model.text([token + now.shift])

        if now.dialect == "llama.cpp":
            content = []
            for token, row in zip(tokens, rows, strict=True):
                best = int(row.argmax())
                top = {"id": best, "token": written(best), "logprob": float(row[best])}
                one = {"id": token, "token": written(token), "logprob": float(row[token])}
                content.append({**one, "top_logprobs": [top]})
            return {"content": content}
        ids = body.get("return_tokens_as_token_ids")
        named = (lambda token: f"token_id:{token}") if ids else written
        first = [None] if body.get("echo") else []
        scored = tokens[len(first) :]
        return {
            "tokens": [named(token) for token in tokens],
            "token_logprobs": first + [float(r[t]) for t, r in zip(scored, rows, strict=True)],
            "top_logprobs": first
            + [
                {named(t): float(r[t]), named(int(r.argmax())): float(r.max())}
                for t, r in zip(scored, rows, strict=True)
            ],
        }


if __name__ == "__main__":
    Handler.model = Model(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    print(server.server_port, flush=True)
    server.serve_forever()
