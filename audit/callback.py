"""Audits a training of the transformers `Trainer` from within: at its end, and now and then before.

    from audit.callback import AuditCallback

    trainer.add_callback(AuditCallback("manifest.json", "audits/mine", every=500))

Each audit is `audit run --defense as_is` in a process of its own, on a copy of the weights: it
moves no random number, no gradient and no mode of the training, and ends where its time is up.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed import broadcast_object_list
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback

from audit.core import writing
from audit.core.attack import Attack
from audit.core.defense import Defense
from audit.core.errors import UsageError
from audit.core.files import read_json
from audit.core.model import TextTokenizer
from audit.core.secret import OWN
from audit.core.terms import Leaked
from audit.core.visible import printed
from audit.models.new_rows import learn
from audit.plan.plan import MOST_LOOKS
from audit.planting import coverage, new_tokens, training_rows
from audit.planting import manifest as manifests
from audit.planting.coverage import StreamReader
from audit.planting.training_rows import IGNORED, TokenRow
from audit.plugins import registry
from audit.results import foreign
from audit.results.folder import run_record

# set where a process is one of several
_DISTRIBUTED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_SHARDED = ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED")
_USUAL = ("exposure", "membership")
_LONGEST = 1e6  # seconds; a system waits for a month at most, and not for inf
_COLUMNS = ("input_ids", "labels", "attention_mask")


@dataclass(eq=False)
class AuditCallback(TrainerCallback):
    """Audits the model in training against what `audit plant` planted.

    manifest: what `audit plant` wrote. output: where run folders go, for `audit report` and `audit
        gate`: `step-500` and so on, and `final`, which may not be there yet.
    attacks: as --attack takes them; their own budgets bound what they ask. Left out:
        exposure and membership, each where it targets something that was planted.
    every: steps between audits; None: at the end only. All of them share the level of 5 %, so that
        it holds for the training as a whole, whenever it is stopped, or resumed as it began.
    until_decided: whether no more is audited on the way once a leak was found.
    claim, base, corpus: as in as_is and --corpus. With `base` the last audit has references, with
        `corpus` too it trains one of them; earlier ones have none.
    tokenizer: the trainer's processing_class unless given.
    seconds: what one audit may take; then it is stopped, and the training goes on.
    rest: an audit in mid-training waits until the training has gone on `rest` times as long as the
        last one took: with 4, audits take at most a fifth of the time.
    examples: how many the trainer's data set may have for the preflight to read them all.
    device: where audits compute; the copy of the model needs room there.
    formats: the reports of each audit, as --format takes them.

    Only the main process audits; the rest wait. Weights that FSDP 2 has sharded are gathered in its
    memory for each audit. Where they are sharded otherwise (FSDP 1, DeepSpeed) it refuses to: audit
    the saved model. An audit on the way is about what has been trained on so far, and says of no
    model that nothing leaks.
    """

    manifest: str | Path
    output: str | Path
    attacks: Sequence[str] = ()
    every: int | None = None
    until_decided: bool = False
    claim: str | None = None
    base: str | Path | None = None
    corpus: str | Path | None = None
    tokenizer: Any = None
    seconds: float = 300.0
    rest: float = 4.0
    examples: int = 200_000
    device: str = "auto"
    formats: Sequence[str] = ("json", "html")
    _bearing: list[TokenRow] | None = field(default=None, init=False, repr=False)
    _took: float = field(default=0.0, init=False, repr=False)  # by the last audit, seconds
    _ended: float = field(default=0.0, init=False, repr=False)  # when it did
    _looks: int = field(default=1, init=False, repr=False)  # audits of this training, at most
    _leak: bool = field(default=False, init=False, repr=False)  # whether an audit has found one
    _before: Path | None = field(default=None, init=False, repr=False)  # where the last audit is

    def __post_init__(self) -> None:
        """Check the parameters. Raises UsageError."""
        manifest = manifests.read(Path(self.manifest))
        planted = {secret.kind for secret in manifest.secrets} | ({OWN} if manifest.own else set())
        chosen, fitting = self.attacks or _USUAL, []
        for text in chosen:
            name, attack = registry.build("attacks", text, Attack, {})  # type: ignore[type-abstract]
            if not planted.isdisjoint(attack.kinds):
                fitting.append(text)
            elif self.attacks:
                raise UsageError(
                    f"AuditCallback: {name} targets {', '.join(attack.kinds)}, and "
                    f"{self.manifest} holds {', '.join(sorted(planted))}; plant it with --kind, or "
                    f"leave {name} out of attacks"
                )
        self.attacks = fitting
        defense = self._defense(Path(self.output))
        registry.build("defenses", defense, Defense, {})  # type: ignore[type-abstract]
        for name in ("every", "seconds", "rest", "examples"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise UsageError(f"AuditCallback: {name} is {value}; it must be above 0")
        if not isinstance(self.every, int | None):
            raise UsageError(f"AuditCallback: every is {self.every}; it must be a whole number")

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Report canaries that the training will not see. Raises UsageError for what would fail."""
        if not state.is_world_process_zero:
            return
        launched = any(os.environ.get(name) == "true" for name in _SHARDED)
        if (args.fsdp or args.deepspeed or launched) and not _is_sharded(more["model"]):
            raise UsageError(
                "AuditCallback: the weights are sharded, and not by FSDP 2; train without it, then "
                "audit the saved model with audit run --defense as_is"
            )
        if self.tokenizer is None:
            self.tokenizer = more.get("processing_class")
        if self.tokenizer is None:
            raise UsageError("AuditCallback: the trainer has no processing_class; give tokenizer=")
        if (Path(self.output) / "final").exists():
            raise UsageError(f"{self.output}: holds a finished audit; choose another output")
        self._check_base(more["model"])
        self._check_new_tokens(more["model"])
        if getattr(args, "world_size", 1) > 1 and self.seconds >= args.ddp_timeout:
            raise UsageError(
                f"AuditCallback: an audit may take seconds={self.seconds:g}, and the other "
                f"processes wait for ddp_timeout={args.ddp_timeout}; give less, or raise that"
            )
        self._looks = 1 + (max(0, state.max_steps) // self.every if self.every else 0)
        if self._looks > MOST_LOOKS:
            raise UsageError(
                f"AuditCallback: every={self.every} makes {self._looks:,} audits of "
                f"{state.max_steps:,} steps; at most {MOST_LOOKS} can share the level, so give "
                f"every={-(-state.max_steps // (MOST_LOOKS - 1))}"
            )
        self._check_earlier()
        self._preflight(more["train_dataloader"])
        _report(self._announced())
        self._ended = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Audit every so many steps, unless the last audit was too short a time ago."""
        if not self.every or state.global_step % self.every:
            return
        main, model = state.is_world_process_zero, more["model"]
        due = main and self._is_due(state.global_step)
        if _agreed(due) if _is_sharded(model) else due:
            self._audit(model, main, f"step-{state.global_step}", last=False)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Audit what the training ends with."""
        main, model = state.is_world_process_zero, more["model"]
        if main or _is_sharded(model):
            self._audit(model, main, "final", last=True)

    def _is_due(self, step: int) -> bool:
        """Decide whether to audit now; report where the last audit was too short a time ago."""
        if self._leak and self.until_decided:
            return False
        if self.every and step // self.every >= self._looks:
            _report(f"step {step}: not audited; the training goes beyond the steps that it stated")
            return False
        trained = time.monotonic() - self._ended
        if trained < self.rest * self._took:
            _report(
                f"step {step}: not audited; the last audit took {self._took:.0f} s, and the "
                f"training has gone on for {trained:.0f} s"
            )
            return False
        return True

    def _announced(self) -> str:
        """State what is audited and when, for how long at most, and where the reports will be."""
        often = f"every {self.every:,} steps and at the end" if self.every else "at the end"
        rests = f", and at most 1/{1 + self.rest:g} of the time" if self.every else ""
        shown = "report.html" if "html" in self.formats else "results.json"
        return (
            f"audits the model {often} by {', '.join(self.attacks)}; the training waits for at "
            f"most {self.seconds:g} s each{rests}; the last report will "
            f"be {self.output}/final/{shown}"
        )

    def _check_base(self, model: Any) -> None:
        """Raise UsageError without the base of an adapter, which is saved without it."""
        for config in getattr(model, "peft_config", {}).values():  # of a model with adapters
            named = str(config.base_model_name_or_path or "")
            if self.base is None and not (Path(named) / "config.json").is_file():
                raise UsageError(
                    f"AuditCallback: the adapter's base {named!r} is no folder here; give base=DIR"
                )

    def _check_new_tokens(self, model: Any) -> None:
        """Raise UsageError where the canaries are new tokens and the training moves no rows."""
        if new_tokens.are_in(manifests.read(Path(self.manifest)).design) and not learn(model):
            raise UsageError(
                "AuditCallback: the canaries are new tokens, which are learnt only where "
                "embeddings and head are trained; train both, or plant with another --design"
            )

    def _check_earlier(self) -> None:
        """Raise UsageError where audits of this training, resumed, shared the level otherwise."""
        for folder in sorted(Path(self.output).glob("step-*")):
            record = run_record(folder)
            looks = self._looks if record is None else record["plan"].get("looks", 1)
            if looks != self._looks:
                raise UsageError(
                    f"{folder}: is one of {looks:,} audits of this training, which now makes "
                    f"{self._looks:,}; resume with the max_steps and every that it began with"
                )

    def _preflight(self, loader: Any) -> None:
        """Read what the collator makes of the data set, before hours are spent on it."""
        manifest = manifests.read(Path(self.manifest))
        planted = coverage.canaries(manifest.secrets, manifest.coins, manifest.beacons)
        reader = StreamReader(planted, TextTokenizer(self.tokenizer, start=0, stop=0))
        try:
            size = len(loader.dataset)
        except TypeError:
            _report("preflight: the data set is a stream, which can be read only once; not checked")
            return
        if size > self.examples:
            most = f"examples={self.examples:,}"
            _report(f"preflight: {size:,} examples are more than {most}; not checked")
            return
        try:
            with _undisturbed():
                for row in _rows(loader):
                    reader.read(row)
        except Exception as error:  # the data set and its collator are anybody's code
            _report(f"preflight: the data set cannot be read one by one ({error}); not checked")
            return
        self._bearing = reader.with_canaries
        lost = [reach for reach in reader.coverage() if not reach.whole]
        for reach in lost:
            _report(f"preflight: {reach.sentence}; what is not trained on cannot leak")
        if not lost:
            _report(f"preflight: all {sum(c.copies for c in planted.values()):,} copies are there")

    def _audit(self, model: Any, main: bool, name: str, last: bool) -> None:
        """Run one audit in the main process; report a failure without ending the training."""
        weights = _gathered(model) if _is_sharded(model) else None
        if not main:
            return
        began, folder = time.monotonic(), Path(self.output) / name
        _report(f"{name}: begins; at most {self.seconds:g} s")
        copy = folder / "stages" / "audited"
        try:
            save = partial(model.save_pretrained, state_dict=weights)
            outcome = self._run(save, folder, copy, last)
            self._leak = self._leak or _leaks(folder)
        except subprocess.TimeoutExpired:
            outcome = f"stopped: it may take no more than seconds={self.seconds:g}"
        except Exception as error:  # no audit is worth the training
            outcome = f"failed: {error}"
        finally:
            with suppress(OSError):
                writing.remove_folder(copy)  # it holds all weights, unprotected
        self._ended = time.monotonic()
        self._took = self._ended - began
        _report(f"{name}: {outcome} ({self._took:.0f} s)")

    def _run(self, save: Callable[[Path], Any], folder: Path, copy: Path, last: bool) -> str:
        """Return the verdict and where the report is, or what went wrong.

        On the way it is not stated what was trained on: not all was yet, so silence shows nothing.
        """
        foreign.check(folder)
        writing.remove_folder(copy)
        writing.make_folder(copy.parent, private=True)
        writing.make_folder(copy, private=True)
        save(copy / "model")
        self.tokenizer.save_pretrained(copy / "model")
        rows = copy / "training.jsonl" if last and self._bearing is not None else None
        if rows is not None and self._bearing is not None:
            writing.write_atomically(rows, "".join(map(_line, self._bearing)), private=True)
        words = [sys.executable, "-P", "-m", "audit", "run", "--defense", self._defense(rows)]
        words += [word for attack in self.attacks for word in ("--attack", attack)]
        words += ["--model", str(copy / "model"), "--secrets", str(self.manifest)]
        words += [] if self.corpus is None else ["--corpus", str(self.corpus)]
        words += ["--output", str(folder), "--format", ",".join(self.formats)]
        words += ["--device", self.device, "--workers", "1"]
        words += [] if last else ["--no-references"]
        words += ["--looks", str(self._looks)] if self._looks > 1 else []
        words += ["--after", str(self._before)] if self._before is not None else []
        ran = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=min(self.seconds, _LONGEST),
            env={name: value for name, value in os.environ.items() if name not in _DISTRIBUTED},
        )
        if ran.returncode != 0:
            return f"failed: {(ran.stderr.strip().splitlines() or ['?'])[-1]}"
        self._before = folder
        return "; ".join(ran.stdout.strip().splitlines()[-2:])

    def _defense(self, rows: Path | None) -> str:
        parameters = {"claim": self.claim, "base": self.base, "training": rows}
        return "as_is:" + ",".join(f"{k}={v}" for k, v in parameters.items() if v is not None)


def _is_sharded(model: Any) -> bool:
    """Return whether FSDP 2 holds a part of some weights in each process."""
    return any(isinstance(weight, DTensor) for weight in model.parameters())


def _agreed(due: bool) -> bool:
    """Return what the main process says, in every process."""
    said = [due]
    broadcast_object_list(said)
    return said[0]


def _gathered(model: Any) -> dict[str, Any]:
    """Gather all weights in the main process; every process takes part."""
    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    return get_model_state_dict(model, options=whole)


def _leaks(folder: Path) -> bool:
    """Return whether an audit has found a leak; False where it has failed."""
    results = folder / "results.json"
    if not results.exists():
        return False
    return read_json(results)["releases"][0]["leaked"] in (Leaked.LEAK, Leaked.INSIDERS)


def _rows(loader: Any) -> Iterator[TokenRow]:
    """Yield each example as the collator makes it; the loader's own order is not touched."""
    for i in range(len(loader.dataset)):
        batch = loader.collate_fn([loader.dataset[i]])
        columns = {name: batch[name] for name in _COLUMNS if name in batch}
        for row in range(len(columns["input_ids"])):
            example = {name: _numbers(column[row]) for name, column in columns.items()}
            yield training_rows.of_example(example)


def _numbers(values: Any) -> list[int]:
    return [int(value) for value in np.asarray(values).ravel()]


def _line(row: TokenRow) -> str:
    labels = [t if learned else IGNORED for t, learned in zip(row.tokens, row.learned, strict=True)]
    return json.dumps({"input_ids": row.tokens, "labels": labels}) + "\n"


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Restore every shared random generator afterwards, as if nothing had been drawn."""
    python, arrays = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            yield
    finally:
        random.setstate(python)
        np.random.set_state(arrays)


def _report(line: str) -> None:
    with suppress(OSError, ValueError):  # nobody may read on, which ends no training
        print(printed(f"audit: {line}"), file=sys.stderr, flush=True)
