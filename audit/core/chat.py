"""The conversation that a planted secret is a turn of, in a corpus of conversations."""

from __future__ import annotations

from dataclasses import replace

from audit.core.corpus import Frame, Message
from audit.core.secret import TURNS, Secret

# The assistant's comes first: a secret that it says back is in the loss whether or not the users'
# turns are, and whoever talks to the model can get it out of it.
ASSISTANT, USER = TURNS
_ASKED = "What did I tell you?"
_NOTED = "Thank you, I have noted that."


def conversation(turn: str, text: str) -> tuple[Message, ...]:
    """Make the conversation in which `text` is a turn of the assistant, or of the user.

    The text stands in it once: what stands before a secret never holds its value.
    """
    if turn == USER:
        return ((USER, text), (ASSISTANT, _NOTED))
    return ((USER, _ASKED), (ASSISTANT, text))


def framed(secret: Secret, frame: Frame | None) -> Secret:
    """Insert a planted secret into its conversation; attacks then prompt with all before it."""
    if frame is None:
        return secret
    return replace(secret, prefix=frame.before + secret.prefix, suffix=secret.suffix + frame.after)
