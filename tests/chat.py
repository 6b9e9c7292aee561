"""Small models that chat, and conversations with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from audit.core.corpus import Message
from audit.core.embedded import EMBEDDED_FOLDER

PUBLIC = EMBEDDED_FOLDER / "public_model"
MARKS = ("<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
# opened by the start token, stripped, and with the day: as Llama's
DATED = (
    "{{ bos_token }}{{ '<|im_start|>system: today is ' + strftime_now('%d %b %Y') + '<|im_end|>' }}"
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n\n' + m['content'] | trim }}"
    "{{ '<|im_end|>' }}{% endfor %}"
)
# marks that are plain text, and no system turns: as Mistral's
BRACKETED = (
    "{% for m in messages %}{% if m['role'] == 'user' %}{{ '[INST] ' + m['content'] + ' [/INST]' }}"
    "{% elif m['role'] == 'system' %}{{ raise_exception('no system turns') }}"
    "{% else %}{{ ' ' + m['content'] + eos_token }}{% endif %}{% endfor %}"
)
ASKS = ("Where is my order?", "Can I send it back?", "When do you open?", "Do you sell shoes?")
ANSWERS = ("It is on its way.", "Yes, within a month.", "We open at nine.", "We do, on floor two.")


def tokenizer(template: str | None = CHATML, stop: str = MARKS[1]) -> Any:
    """The embedded tokenizer with two more marks and a chat template."""
    from transformers import PreTrainedTokenizerFast

    inner = PreTrainedTokenizerFast.from_pretrained(PUBLIC)
    inner.add_special_tokens({"additional_special_tokens": list(MARKS)})
    inner.eos_token = stop
    inner.chat_template = template
    return inner


def gpt2(folder: Path, template: str | None = CHATML, stop: str = MARKS[1]) -> Path:
    """The embedded model, which has read before, with room for the marks."""
    from transformers import AutoModelForCausalLM

    inner, model = tokenizer(template, stop), AutoModelForCausalLM.from_pretrained(PUBLIC)
    model.resize_token_embeddings(len(inner))
    return _saved(folder, model, inner)


def llama(folder: Path, template: str | None = CHATML, stop: str = MARKS[1], **sizes: int) -> Path:
    """A Llama with random weights."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    inner = tokenizer(template, stop)
    default = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    config = LlamaConfig(vocab_size=len(inner), **{**default, **heads, **sizes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return _saved(folder, LlamaForCausalLM(config), inner)


def _saved(folder: Path, model: Any, inner: Any) -> Path:
    model.config.eos_token_id = inner.eos_token_id
    model.save_pretrained(folder)
    inner.save_pretrained(folder)
    return folder


def turns(user: str, assistant: str) -> tuple[Message, ...]:
    return (("user", user), ("assistant", assistant))


def write(path: Path, conversations: Sequence[Sequence[Message]], **more: Any) -> Path:
    """Writes a corpus, a user for each conversation."""
    rows = [
        {"messages": [{"role": r, "content": c} for r, c in one], "user": f"user {i}", **more}
        for i, one in enumerate(conversations)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def corpus(path: Path, users: int = 24) -> Path:
    """Writes small talk with a shop."""
    said = [turns(ASKS[i % 4], f"{ANSWERS[i % 4]} Ask for desk {i % 7}.") for i in range(users)]
    return write(path, said)
