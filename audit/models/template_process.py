"""Write conversations by a chat template in a process of its own, with limits on time and memory.

A template is anybody's code in a sandbox, which bounds neither.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from audit.core.limited_process import LimitedProcess, serve

SECONDS = 20.0  # for one conversation
MEMORY = 1 << 29  # bytes beyond what the process has once it is ready


@lru_cache(maxsize=2)
def template_process(source: str, special: str) -> TemplateProcess:
    """Share the process of a template. special: as JSON."""
    return TemplateProcess(source, json.loads(special))


class TemplateProcess(LimitedProcess):
    """A process that writes conversations by one template."""

    def __init__(self, source: str, special: dict[str, Any]) -> None:
        """Describe the process. special: names and texts of tokens."""
        super().__init__(__name__, {"source": source, "special": special}, MEMORY)

    def written(self, turns: Sequence[dict[str, str]]) -> str:
        """Write a conversation. Raises UsageError where the template does not."""
        return str(self.ask(turns, SECONDS))


def _writer(setup: dict[str, Any]) -> Callable[[Any], str]:
    from transformers.utils.chat_template_utils import render_jinja_template

    def written(turns: Any) -> str:
        rendered = render_jinja_template(
            conversations=[turns], chat_template=setup["source"], **setup["special"]
        )
        texts = rendered[0] if isinstance(rendered, tuple) else rendered
        return str(texts[0])

    return written


if __name__ == "__main__":
    serve(_writer)
