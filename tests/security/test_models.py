"""A stranger's model folder names no code and no file outside, and can hold up nobody."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from audit.core import limited_process, tokenizer_process
from audit.core.embedded import EMBEDDED_FOLDER
from audit.core.errors import UsageError
from audit.core.time_limit import in_time
from audit.models import asked_size, template_process
from audit.models.external_model import describe_external
from audit.models.gguf_header import check_header
from audit.models.hostile_folder import check_tokenizer
from audit.models.loading import describe, hash_of, load_tokenizer, load_weights
from audit.models.template_process import TemplateProcess

WEIGHT = "transformer.wte.weight"
INDEX = "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return shutil.copytree(EMBEDDED_FOLDER / "public_model", tmp_path / "model")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(UsageError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


def described(folder: Path) -> Any:
    return describe(str(folder), EMBEDDED_FOLDER)


def change(file: Path, **settings: Any) -> None:
    document = json.loads(file.read_text("utf-8")) if file.exists() else {}
    file.write_text(json.dumps({**document, **settings}))


def indexed(folder: Path, name: str) -> None:
    """Split the weights into two files; the index names `name` for one tensor."""
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    save_file({WEIGHT: weights.pop(WEIGHT)}, folder / "second.safetensors", {"format": "pt"})
    save_file(weights, folder / "first.safetensors", {"format": "pt"})
    where = {**dict.fromkeys(weights, "first.safetensors"), WEIGHT: name}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": where}))


def test_index_of_own_safetensors_is_read(folder: Path) -> None:
    indexed(folder, "second.safetensors")
    assert load_weights(described(folder), "cpu").transformer.wte.weight.shape[0] > 0


@pytest.mark.parametrize(
    "name",
    [
        "evil.bin",
        "../outside.safetensors",
        "/etc/x.safetensors",
        "a/b.safetensors",
        "",
        "gone",
        "..",
    ],
)
def test_index_that_names_anything_else_is_refused(folder: Path, name: str) -> None:
    indexed(folder, name)
    torch.save({WEIGHT: torch.ones(1)}, folder / "evil.bin")
    shutil.copy(folder / "second.safetensors", folder.parent / "outside.safetensors")
    assert "may name only .safetensors files beside it" in refused(lambda: described(folder))


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"auto_map": {"AutoModelForCausalLM": "evil.T"}}, "remote code"),
        ({"text_config": {"auto_map": {"AutoConfig": "evil.T"}}}, "remote code"),
        ({"sub_configs": [{"auto_map": {"AutoConfig": "evil.T"}}]}, "remote code"),
        ({"attn_implementation": "kernels-community/evil"}, "code of a hub"),
        ({"_attn_implementation": {"": None, "a": "x/y:z"}}, "code of a hub"),
        ({"experts_implementation": "x@main"}, "code of a hub"),
        ({"_attn_implementation_internal": "x/y"}, "code of a hub"),
        ({"transformers_weights": "adapter_model.bin"}, "transformers_weights"),
        ({"n_layer": 10**8}, "no model has more than 4,096"),
        ({"text_config": {"num_local_experts": 1e8}}, "no model has more than 4,096"),
        ({"encoder_layers": 4097}, "no model has more than 4,096"),
        ({"num_stages": 4097}, "no model has more than 4,096"),
    ],
)
def test_configuration_that_names_code_is_refused(
    folder: Path, settings: dict[str, Any], why: str
) -> None:
    change(folder / "config.json", **settings)
    assert why in refused(lambda: described(folder))


@pytest.mark.parametrize("shards", [None, {}, ["first.safetensors"]])
def test_index_without_a_map_is_refused(folder: Path, shards: Any) -> None:
    (folder / "other.index.json").write_text(json.dumps({"weight_map": shards}))
    assert "is not an index of weights" in refused(lambda: described(folder))


def test_shard_that_is_a_device_is_not_opened(folder: Path) -> None:
    indexed(folder, "second.safetensors")
    (folder / "second.safetensors").unlink()
    (folder / "second.safetensors").symlink_to("/dev/zero")
    assert "tensors: cannot be read (it is no regular file)" in refused(lambda: described(folder))


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("tokenizer.json", "{", "cannot be read"),
        ("tokenizer_config.json", "{", "cannot be read"),
        ("tokenizer_config.json", "[]", "expected an object"),
        ("config.json", "[]", "expected an object"),
        ("added_tokens.json", "{", "cannot be read"),
    ],
)
def test_settings_of_another_form_are_refused(
    folder: Path, name: str, content: str, why: str
) -> None:
    change(folder / "tokenizer.json", normalizer=MANY)
    (folder / name).write_text(content)
    said = refused(lambda: load_tokenizer(described(folder)))
    assert said.startswith(f"{folder / name}: {why}")


def test_weights_beyond_all_memory_are_not_read(folder: Path) -> None:
    with (folder / "second.safetensors").open("wb") as file:
        file.truncate(1 << 43)
    assert "more memory than there is" in refused(lambda: described(folder))


def test_settings_that_ask_for_more_than_the_weights_hold_are_refused(folder: Path) -> None:
    """The library would fill 800 GB before it finds that the weights are of another shape, or make
    layers for hours."""
    for settings, why in (
        ({"n_inner": 4 * 10**8}, "ask for 205,600,297,472"),
        ({"n_inner": None, "n_layer": 4096}, "ask for over 4,544 modules"),
    ):
        change(folder / "config.json", **settings)
        assert why in refused(lambda: load_weights(described(folder), "cpu"))


def test_some_more_than_the_weights_hold_may_be_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asked_size, "_ALWAYS", 0)
    config, held = AutoConfig.from_pretrained(folder), described(folder).parameters
    asked_size.check_asked(config, held // 3)
    with pytest.raises(ValueError, match=f"its weights are {held // 5:,}"):
        asked_size.check_asked(config, held // 5)


def test_plain_attention_is_read(folder: Path) -> None:
    named = {"attn_implementation": "eager", "_attn_implementation": None}
    change(folder / "config.json", **named, num_stages=4096)
    assert described(folder).vocabulary


def test_model_that_is_an_adapter_of_another_is_refused(folder: Path) -> None:
    change(folder / "adapter_config.json", base_model_name_or_path="../other", peft_type="LORA")
    assert "names another model" in refused(lambda: described(folder))


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    weights = {"lora_A.weight": torch.ones(4, 8), "lora_B.weight": torch.ones(64, 4)}
    save_file(weights, folder / "adapter_model.safetensors")
    return folder


@pytest.mark.parametrize(
    ("named", "why"),
    [
        ({"megatron_core": "evil"}, "Megatron, which is never imported"),
        ({"megatron_config": {"a": 1}}, "Megatron, which is never imported"),
        ({"peft_type": "XLORA", "adapters": {"0": "/tmp/x"}}, "may open other files"),
        ({"peft_type": "SHADOW", "shadow_model": "/tmp/x"}, "may open other files"),
        ({"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 10**9}, "may open other files"),
        ({"peft_type": ["LORA"]}, "may open other files"),
        ({"layer_replication": [[0, 10**9]]}, "copies layers"),
        ({"r": 65}, "r is 65, and its weights have 64 rows"),
        ({"r": 64, "rank_pattern": {".*": 10**9}}, "1,000,000,000, and its weights have 64 rows"),
    ],
)
def test_adapter_that_names_a_module_is_refused(
    adapter: Path, named: dict[str, Any], why: str
) -> None:
    base = str(EMBEDDED_FOLDER / "public_model")
    change(adapter / "adapter_config.json", base_model_name_or_path=base, **named)
    assert why in refused(lambda: describe_external(str(adapter), base, EMBEDDED_FOLDER))


@pytest.mark.parametrize("harm", ["repeats a group", "took more than"])
def test_tokenizer_of_an_adapter_is_not_trusted(
    adapter: Path, harm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_process, "MEMORY", 1 << 28)
    base = EMBEDDED_FOLDER / "public_model"
    change(adapter / "adapter_config.json", base_model_name_or_path=str(base))
    shutil.copy(base / "tokenizer.json", adapter)
    if harm == "repeats a group":
        regex(adapter, "(a|aa)+$")
    else:
        change(adapter / "tokenizer.json", **BOMBS["reading"])
    assert harm in refused(lambda: describe_external(str(adapter), str(base), EMBEDDED_FOLDER))


# GGUF


def header(*settings: bytes, tensors: int = 0, count: int | None = None) -> bytes:
    numbers = [number(3, 4), number(tensors), number(len(settings) if count is None else count)]
    return b"GGUF" + b"".join([*numbers, *settings])


def number(value: int, size: int = 8) -> bytes:
    return value.to_bytes(size, "little")


def setting(name: bytes, kind: int, value: bytes) -> bytes:
    return number(len(name)) + name + number(kind, 4) + value


def array(kind: int, count: int, values: bytes = b"") -> bytes:
    return number(kind, 4) + number(count) + values


GGUF: dict[str, tuple[bytes, str]] = {
    "another": (b"PK\3\4" + bytes(99), "does not begin as one"),
    "cut": (header(count=1), "cut short"),
    "endless settings": (header(count=1 << 60), "claims 0 tensors and"),
    "endless tensors": (header(tensors=1 << 60), "tensors and 0 settings"),
    "a long text": (header(setting(b"x", 8, number(1 << 60))), "cut short"),
    "a long array": (header(setting(b"x", 9, array(4, 1 << 20))), "cut short"),
    "an array of zeros": (header(setting(b"x", 9, array(0, 3 << 20, bytes(3 << 20)))), "values"),
    "a long token": (header(setting(b"x", 9, array(8, 1, number(5000) + bytes(5000)))), "a token"),
    "arrays in arrays": (header(setting(b"x", 9, array(9, 1) * 9)), "unknown type"),
    "another type": (header(setting(b"x", 99, b"")), "unknown type"),
    "many blocks": (header(setting(b"a.block_count", 4, number(4097, 4))), "blocks"),
    "many experts": (header(setting(b"a.expert_count", 10, number(1 << 30))), "experts"),
    "a cut number": (header(setting(b"a.block_count", 4, b"")), "cut short"),
    "many settings": (header(count=1 << 17), "claims 0 tensors and 131,072"),
    "many arrays": (header(*[setting(b"x", 9, array(0, 1 << 20, bytes(1 << 20)))] * 3), "values"),
}


@pytest.mark.parametrize("name", GGUF)
def test_header_of_gguf_that_claims_too_much_is_refused(tmp_path: Path, name: str) -> None:
    content, why = GGUF[name]
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(ValueError, match=why):
        check_header(tmp_path / "x.gguf")


@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("name", ["T", "pipeline", "AutoModel", "GPT2LMHeadModel", "os", ""])
def test_class_that_is_no_tokenizer_is_refused(folder: Path, name: str, file: str) -> None:
    change(folder / "tokenizer_config.json", tokenizer_class=None)
    change(folder / file, tokenizer_class=name)
    assert "none that transformers has" in refused(lambda: check_tokenizer(folder))


@pytest.mark.parametrize(
    "settings",
    [
        {"fast_tokenizer_files": ["tokenizer.json", "tokenizer.4.0.0.json"]},
        {"tokenizer_file": __file__},
        {"vocab_file": __file__},
    ],
)
def test_tokenizer_of_another_file_is_refused(folder: Path, settings: dict[str, Any]) -> None:
    change(folder / "tokenizer_config.json", special_tokens_map_file=__file__, merges_file="/none")
    check_tokenizer(folder)
    change(folder / "tokenizer_config.json", **settings)
    assert "names another file" in refused(lambda: load_tokenizer(described(folder)))


def regex(folder: Path, pattern: str) -> None:
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    change(folder / "tokenizer.json", pre_tokenizer={"type": "Sequence", "pretokenizers": [split]})


@pytest.mark.parametrize("pattern", ["(a|aa)+$", r"(\w+)*x", r"(?:a|b?){2,}", r"\\(a)+", r"(a\\)+"])
def test_regular_expression_that_repeats_a_group_is_refused(folder: Path, pattern: str) -> None:
    regex(folder, pattern)
    assert "repeats a group" in refused(lambda: check_tokenizer(folder))


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}]*[\p{Ll}\p{Lm}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}",
        r" ?[^(\s|[.,!?…。，、।۔،])]+",
        r"\(+|\)*",
    ],
)
def test_regular_expressions_of_known_tokenizers_are_read(folder: Path, pattern: str) -> None:
    regex(folder, pattern)
    check_tokenizer(folder)


BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
MANY = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
BOMBS: dict[str, dict[str, Any]] = {  # what a tokenizer does to "a", and how it is asked for that
    "reading": {"normalizer": {"type": "Sequence", "normalizers": [MANY] * 5}},
    "writing": {"decoder": {"type": "Sequence", "decoders": [MANY] * 5}},
    "each token": {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES] * 40}},
}


@pytest.mark.parametrize("how", BOMBS)
def test_tokenizer_that_takes_memory_is_left(
    folder: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokenizer_process, "MEMORY", 1 << 28)
    plain = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    change(folder / "tokenizer.json", **BOMBS[how])
    tokens, before = plain.encode("banana"), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def ask() -> object:
        tokenizer = load_tokenizer(described(folder))
        return tokenizer.decode(tokens) if how == "writing" else tokenizer.encode("éa")

    said = refused(ask)
    assert "took more than 256 MB of memory" in said and "give another tokenizer" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 16
    if how != "each token":  # refused when it was loaded
        again = load_tokenizer(described(folder))
        assert again.encode("0") == plain.encode("0")  # a new process answers the next question


@pytest.mark.parametrize(
    ("name", "times"),
    [("tokenizer.json", 5), ("tokenizer_config.json", 2), ("added_tokens.json", 2)],
)
def test_added_token_that_grows_without_an_end_is_refused(
    folder: Path, name: str, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library normalizes it as it loads, in this process."""
    monkeypatch.setattr(tokenizer_process, "MEMORY", 1 << 28)
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "special": False}
    token = {"content": "éé", **plain, "normalized": True}
    grows = {"type": "Replace", "pattern": {"String": "é"}, "content": "é" * 1000}
    change(
        folder / "tokenizer.json", normalizer={"type": "Sequence", "normalizers": [grows] * times}
    )
    if name == "tokenizer.json":
        change(folder / name, added_tokens=[{"id": 1024, **token}])
    elif name == "added_tokens.json":
        change(folder / name, **{"éé": 1024})
    else:
        change(folder / name, added_tokens_decoder={"1024": token})
    said = refused(lambda: load_tokenizer(described(folder)))
    assert "added tokens take too much" in said or "took more than 256 MB" in said


def test_long_added_tokens_that_do_not_grow_are_read(folder: Path) -> None:
    change(folder / "tokenizer.json", normalizer={"type": "NFC"})
    change(folder / "added_tokens.json", **{"b" * 2**13 + str(i): 1024 + i for i in range(20)})
    check_tokenizer(folder)


def test_long_text_has_more_memory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizer_process, "MEMORY", 1 << 24)
    assert len(load_tokenizer(described(folder)).encode("banana " * 100_000)) > 10**5


def test_process_that_is_not_ready_in_time_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limited_process, "STARTING", 0.01)
    process = TemplateProcess("ok", {})
    assert "more than 0.01 s" in refused(lambda: process.written(TURNS))
    assert process._process is None


@pytest.mark.parametrize("users", ["-1", "1 << 36"])  # the user's own limit; there is none
def test_process_that_takes_memory_before_it_is_ready_ends(users: str) -> None:
    code = "import resource as r; from audit.core import limited_process as one; "
    code += f"r.setrlimit(r.RLIMIT_AS, ({users}, {users})); "
    code += "one._READY = 1 << 28; one.serve(lambda told: bytearray(1 << 30).find)"
    run = subprocess.run([sys.executable, "-c", code], input=b"[0, 0]\n", capture_output=True)
    assert run.stdout == b"" and run.stderr.endswith(b"MemoryError\n")


@pytest.mark.parametrize("text", ["Hello  é 鍵\n1,000 <|endoftext|>", "", " "])
def test_process_of_a_tokenizer_reads_and_writes_as_here(folder: Path, text: str) -> None:
    plain = load_tokenizer(describe("embedded", EMBEDDED_FOLDER))
    apart = load_tokenizer(described(folder))
    assert apart.strange and not plain.strange
    ids = plain.encode(text)
    assert (apart.encode(text), apart.ends(text)) == (ids, plain.ends(text))
    assert apart.decode(ids) == plain.decode(ids)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "vocab.json",
        "merges.txt",
        "x.model",
        "x.tiktoken",
        "tekken.json",
        "added_tokens.json",
    ],
)
def test_vocabulary_of_any_size_is_not_read(folder: Path, name: str) -> None:
    with (folder / name).open("a") as file:
        file.truncate(1 << 30)
    assert "larger than 64 MB" in refused(lambda: check_tokenizer(folder))


class PanicException(BaseException):
    """What a native library in Rust raises."""


def test_native_code_is_left_after_its_time_and_a_panic_is_one_line() -> None:
    def panics() -> None:
        raise PanicException("Onig: retry-limit")

    assert in_time(lambda: 5, 9, "it", "so") == 5
    assert refused(lambda: in_time(panics, 9, "it", "so")) == "it failed (Onig: retry-limit); so"
    begun = time.monotonic()
    slow = threading.Event()
    assert "more than 0.1 s" in refused(lambda: in_time(slow.wait, 0.1, "it", "so"))
    assert time.monotonic() - begun < 5
    with pytest.raises(KeyError):
        in_time(lambda: {}[1], 9, "it", "so")  # type: ignore[var-annotated]


def test_interrupt_leaves_native_code() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            in_time(threading.Event().wait, 60, "it", "so")
    finally:
        signal.signal(signal.SIGINT, before)


# the digest


def test_digest_covers_names_and_contents_by_their_lengths(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "x").write_bytes(b"1y\x002")
    (two / "x").write_bytes(b"1")
    (two / "y").write_bytes(b"2")
    assert hash_of(sorted(one.iterdir())) != hash_of(sorted(two.iterdir()))
    assert hash_of([two / "x"], "a") != hash_of([two / "x"], "ab")


@pytest.mark.parametrize(
    "name", ["chat_template.jinja", "additional_chat_templates/x.jinja", "merges.txt", "a.tiktoken"]
)
def test_digest_covers_whatever_is_opened(folder: Path, name: str) -> None:
    before = described(folder).sha256
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("x")
    assert described(folder).sha256 != before


# chat templates

TURNS = [{"role": "user", "content": "hi"}]
OTHER = [{"role": "user", "content": "otherwise"}]


def loops(source: str) -> str:
    """Behave at first, so that the time to start is not counted."""
    return "{% if messages[0].content == 'hi' %}ok{% else %}" + source + "{% endif %}"


def test_endless_template_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """By an interrupt, and after its time; in a loop, and where it is compiled."""
    endless = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
    process = TemplateProcess(loops(endless), {})
    assert process.written(TURNS) == "ok"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            process.written(OTHER)
    finally:
        signal.signal(signal.SIGINT, before)
    assert process._process is None
    monkeypatch.setattr(template_process, "SECONDS", 0.5)
    process = TemplateProcess("{{ 9 ** (9 ** 9) }}", {})
    begun = time.monotonic()
    assert "more than 0.5 s" in refused(lambda: process.written(TURNS))
    assert time.monotonic() - begun < 10
    assert process._process is None


@pytest.mark.slow
def test_template_that_takes_memory_is_left() -> None:
    doubles = "{% set n = namespace(x='aaaaaaaaaa') %}{% for i in range(40) %}"
    doubles += "{% set n.x = n.x ~ n.x %}{% endfor %}{{ n.x }}"
    for source in (doubles, "{{ 'a' * 30000000 }}"):  # an answer, too, has a longest length
        process = TemplateProcess(loops(source), {})
        assert process.written(TURNS) == "ok"
        assert "MB of memory" in refused(lambda: process.written(OTHER))  # noqa: B023


CODE = (
    "{{ cycler.__init__.__globals__.os.system('touch RAN') }}",
    "{{ namespace.__init__.__globals__.signal.setitimer(0, 0) }}",  # its limits of time and memory
    "{{ (joiner|attr('__init__')).__globals__.resource.setrlimit(9, (-1, -1)) }}",
    "{{ ('{0.__class__.__mro__}'|attr('format'))(messages) }}",  # before jinja2 3.1.6 it is run
    "{{ raise_exception.__globals__['os'].system('touch RAN') }}",
    "{% include '/etc/' ~ 'passwd' %}",
    "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
)


def test_template_runs_no_code_and_reads_no_file() -> None:
    choice = "".join(
        "{% if messages[0].content == '" + str(i) + "' %}" + source + "{% endif %}"
        for i, source in enumerate(CODE)
    )
    process = TemplateProcess(choice, {})
    for i in range(len(CODE)):
        refused(lambda i=i: process.written([{"role": "user", "content": str(i)}]))  # type: ignore[misc]
    assert process.written(TURNS) == "" and not Path("RAN").exists()
