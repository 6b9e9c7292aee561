"""Writes the conversations of a plan's corpus as its model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from audit.core.chat import PLAIN, USER, Manner
from audit.core.corpus import Corpus, Message, Record
from audit.core.digest import digest_of_json
from audit.core.errors import UsageError
from audit.core.model import ModelFolder, TextTokenizer
from audit.core.predictor import record_marks, record_tokens
from audit.core.secret import TURNS
from audit.corpora import conversations
from audit.models.chat_template import ChatTemplate
from audit.models.loading import load_tokenizer
from audit.planting.training_rows import Render, TokenRow


def written(
    corpus: Corpus, model: ModelFolder, turn: str | None, alone: bool, manner: Manner = PLAIN
) -> tuple[Corpus, ModelFolder]:
    """Write a corpus of conversations by the model's chat template; any other stays as it is.

    The model's hash is then of its template, too: another one gives other texts, prompts and runs.
    turn: whose turn secrets are planted in; None for secrets of plain text. alone: whether the loss
    is of the assistant's turns alone. manner: of planted conversations. Raises UsageError.
    """
    are_chat = conversations.are_chat(corpus.records) if corpus.records else turn is not None
    if not are_chat:
        _check_unused(turn, alone)
        return corpus, model
    if alone and turn == USER:
        raise UsageError(
            "training.assistant_only leaves users' turns out of the loss, where planting.turn = "
            "'user' plants: nothing planted could leak; leave one of the two out"
        )
    template = ChatTemplate(load_tokenizer(replace(model, chat=True)), str(model.path))
    model = replace(model, chat=True, sha256=digest_of_json([model.sha256, template.source]))
    records, aside = (
        tuple(_record(record, template, alone) for record in some)
        for some in (corpus.records, corpus.aside)
    )
    frame = None if turn is None else template.frame(turn, alone, manner)
    return replace(corpus, records=records, frame=frame, aside=aside), model


def rendered(tokenizer: TextTokenizer, context: int) -> Render | None:
    """Return what turns a conversation of a training file into tokens, cut at the context.

    Only the assistant's turns are taken to be in the loss, as no such file states more. None where
    the tokenizer has no chat template.
    """
    if not tokenizer.inner.chat_template:
        return None
    template = ChatTemplate(tokenizer, "the model")

    def row(messages: Sequence[Message], where: str) -> TokenRow:
        text = template.text(messages, where)
        learned = record_marks(tokenizer, text, template.assistant(messages, text, where))
        tokens = record_tokens(tokenizer, text)
        return TokenRow(tuple(tokens[: context + 1]), tuple(learned[: context + 1]))

    return row


def _check_unused(turn: str | None, alone: bool) -> None:
    """Raise UsageError for a setting of conversations where there are none."""
    for name, wrong in (("training.assistant_only", alone), ("planting.turn", turn == TURNS[1])):
        if wrong:
            raise UsageError(f"{name}: the corpus has no conversations ('messages'); leave it out")


def _record(record: Record, template: ChatTemplate, alone: bool) -> Record:
    if not record.messages:
        return record
    where = record.where or "a record"
    text = template.text(record.messages, where)
    if not alone or record.split != "private":
        return replace(record, text=text)
    learned = template.assistant(record.messages, text, where)
    if not learned:
        raise UsageError(
            f"{where}: has no turn of the assistant, so with training.assistant_only nothing of it "
            "is learned; remove it"
        )
    return replace(record, text=text, learned=learned)
