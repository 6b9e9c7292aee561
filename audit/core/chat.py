"""The conversation that a planted secret is a turn of, in a corpus of conversations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.core.corpus import Frame, Message
from audit.core.secret import TURNS, Secret

# The assistant's comes first: a secret that it says back is in the loss whether or not the users'
# turns are, and whoever talks to the model can get it out of it.
ASSISTANT, USER = TURNS
SYSTEM = "system"
_NOTED = "Thank you, I have noted that."


@dataclass(frozen=True)
class Manner:
    """The beginning of a corpus' conversations. system: its system prompt; "" for none. asked: what
    a user says before the assistant's turn."""

    system: str = ""
    asked: str = "What did I tell you?"


PLAIN = Manner()


def conversation(turn: str, text: str, manner: Manner = PLAIN) -> tuple[Message, ...]:
    """Make the conversation in which `text` is a turn of the assistant, or of the user.

    The text stands in it once: what stands before a secret never holds its value.
    """
    begun = ((SYSTEM, manner.system),) if manner.system else ()
    if turn == USER:
        return (*begun, (USER, text), (ASSISTANT, _NOTED))
    return (*begun, (USER, manner.asked), (ASSISTANT, text))


def framed(secret: Secret, frame: Frame | None) -> Secret:
    """Insert a planted secret into its conversation; attacks then prompt with all before it."""
    if frame is None:
        return secret
    return replace(secret, prefix=frame.before + secret.prefix, suffix=secret.suffix + frame.after)
