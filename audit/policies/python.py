"""The policy `python`: a function of the user."""

from __future__ import annotations

import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, final

from audit.core.errors import UsageError, did_you_mean
from audit.core.policy import Policy, digest_of
from audit.core.spans import Span, merged
from audit.core.time_limit import limited

SECONDS = 60.0  # for its import, or one text, for which it may load a model


@final
@dataclass(frozen=True)
class Python(Policy):
    """A function from text to (start, end) pairs: python:module:function."""

    argument: ClassVar[str] = "module:function"

    module: str
    function: str

    @classmethod
    def parse(cls, argument: str, options: Mapping[str, str]) -> Python:
        module, _, function = argument.partition(":")
        if not module or not function:
            raise UsageError("policy python needs a module and a function; write python:m:f")
        policy = cls(module, function)
        policy._callable()
        return policy

    def __call__(self, text: str) -> list[Span]:
        with self._one_line("calling it"):
            pairs = list(self._callable()(text))
        return merged(self._checked(pair, len(text)) for pair in pairs)

    def _checked(self, pair: Any, length: int) -> Span:
        try:
            low, high = map(operator.index, pair)
        except (TypeError, ValueError):
            raise UsageError(
                f"policy {self.label}: {pair!r} is not a span; give pairs of whole numbers"
            ) from None
        if not 0 <= low < high <= length:
            raise UsageError(
                f"policy {self.label}: ({low}, {high}) is not a span of {length} characters; "
                "give 0 <= start < end <= length"
            )
        return low, high

    def _callable(self) -> Callable[[str], Any]:
        module = self._imported()
        function = getattr(module, self.function, None)
        if not callable(function):
            known = [name for name, value in vars(module).items() if inspect.isfunction(value)]
            hint = did_you_mean(self.function, known)
            raise UsageError(
                f"policy {self.label}: {self.module} has no function {self.function!r}{hint}"
            )
        return function  # type: ignore[no-any-return]

    def _imported(self) -> ModuleType:
        """Import the module, in worker processes too: a policy is sent there by its names."""
        if self.module in sys.modules:
            return sys.modules[self.module]
        with self._one_line("importing it"), _current_directory_first():
            return importlib.import_module(self.module)

    @contextmanager
    def _one_line(self, what: str) -> Iterator[None]:
        """Raise UsageError for whatever the user's code raises, and where it never ends."""
        try:
            with limited(SECONDS, f"policy {self.label}: {what}", "mend the function"):
                yield
        except UsageError:
            raise
        except Exception as error:  # the user's code may raise anything
            reason = " ".join(str(error).split())
            kind = type(error).__name__
            raise UsageError(f"policy {self.label}: {what} failed: {kind}: {reason}") from None

    @property
    def label(self) -> str:
        return f"python:{self.module}:{self.function}"

    @property
    def digest(self) -> str:
        return digest_of(self.label, _source(self._imported()))


@contextmanager
def _current_directory_first() -> Iterator[None]:
    here = str(Path.cwd())
    importlib.invalidate_caches()
    sys.path.insert(0, here)
    try:
        yield
    finally:
        with suppress(ValueError):  # the module may have removed it
            sys.path.remove(here)


def _source(module: ModuleType) -> str:
    """Return the module's source; empty if there is none, as for compiled modules."""
    try:
        file = inspect.getsourcefile(module)
    except TypeError:
        return ""
    return Path(file).read_text(encoding="utf-8", errors="replace") if file else ""
