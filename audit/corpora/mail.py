"""Read mail as records: the subject and the text of each message, and whose it may be.

The user is the sender unless another column is named: who receives it, its thread, its mailbox.
Files of a Maildir, of Thunderbird and of the Enron corpus have no ending that shows what they are;
they are recognised by their headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import policy
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from typing import Any

from audit.core.files import regular
from audit.corpora.part import as_text, split_of

KINDS = (".mbox", ".eml")
NOTE = "the user of a mail is its sender; --user to, --user thread or --user mailbox is another"
_HEAD = 1 << 16  # bytes in which a header ends, or its lines are looked at as far as these go
_FIELD = re.compile(rb"([!-9;-~]+):|[ \t]|From ")  # a line of a header
_OTHERS = {b"date", b"message-id", b"received", b"subject", b"to"}  # one stands beside From
_PARTS = ("cur", "new")  # folders of a Maildir
# the first line of a message in a mailbox: of a date, or before a header; a text may have others
_BEGINNING = re.compile(
    rb"^From (?:.*(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? +\w{3} +\d.*\n|.*\n(?=[!-9;-~]+:))",
    re.MULTILINE,
)
_BLANKS = re.compile(r"\s+")
_ID = re.compile(r"<[^<>\s]+>")


def rows(content: bytes, suffix: str, name: str) -> Iterator[dict[str, Any]]:
    """Read each message, with whose it may be: None where that is not known.

    from, to: addresses of the sender and of the first receiver. thread: id of its first message.
    mailbox: `name`. user: the sender.
    """
    for message in _messages(content) if suffix == ".mbox" else [_parsed(content)]:
        text = _text(message)
        subject = _decoded(message["subject"])
        sender = _address(message["from"])
        yield {
            "text": f"{subject}\n\n{text}" if subject and text else text,
            "user": sender,
            "from": sender,
            "to": _address(message["to"]),
            "thread": _thread(message),
            "mailbox": name,
        }


def recognised(path: Path) -> str:
    """Recognise a file of mail by its header: the ending of its kind, or "" for another file."""
    try:
        with regular(path).open("rb") as file:
            head = file.read(_HEAD)
    except OSError:
        return ""
    header, blank, _ = head.replace(b"\r\n", b"\n").partition(b"\n\n")
    lines = header.split(b"\n")
    fields = [_FIELD.match(line) for line in (lines if blank else lines[:-1])]
    names = {field[1].lower() for field in fields if field is not None and field[1] is not None}
    if None in fields or b"from" not in names or names.isdisjoint(_OTHERS):
        return ""
    return ".mbox" if head.startswith(b"From ") else ".eml"


def mailbox_of(path: Path) -> str:
    """Return the name of the mailbox that a message in a file of its own is in."""
    parent = path.parent
    return as_text(parent.parent.name if parent.name in _PARTS else parent.name)


def owner_of(place: Path) -> str:
    """Return whose a mailbox is, by the first folder of its place in a corpus; "" without one."""
    folders = (name for name in place.parts[:-1] if name not in _PARTS and not split_of(name))
    return as_text(next(folders, ""))


def _decoded(header: Any) -> str:
    """Read a header as one line, with its encoded words."""
    line = " ".join(str(header or "").split())
    if "=?" not in line:
        return line
    try:
        return " ".join(str(make_header(decode_header(line))).split())
    except (LookupError, MessageError, ValueError):  # an unknown charset, or broken words
        return line


def _address(header: Any) -> str | None:
    """Read the first address of a header; of "Lee, Ann <ann@example.com>" it is not "Lee"."""
    found = [one for _, name in getaddresses([str(header or "")]) if (one := name.strip())]
    return next((one for one in found if "@" in one), next(iter(found), None))


def _thread(message: EmailMessage) -> str | None:
    """Find the id of the message that began the thread: the first one that it refers to."""
    for header in ("references", "in-reply-to", "message-id"):
        ids = _ID.findall(str(message[header] or ""))
        if ids:
            return str(ids[0])
    return None


def _messages(content: bytes) -> Iterator[EmailMessage]:
    begun = list(_BEGINNING.finditer(content))
    for this, following in zip_longest(begun, begun[1:]):
        yield _parsed(content[this.end() : following.start() if following else None])


class _Mail(EmailMessage):
    """A message whose headers are read as they stand: parsing each by its grammar takes most of
    the time that a mailbox takes."""

    def is_attachment(self) -> bool:
        return self.get_content_disposition() == "attachment"


def _parsed(content: bytes) -> EmailMessage:
    message: object = BytesParser(_Mail, policy=policy.compat32).parsebytes(content)
    assert isinstance(message, EmailMessage)
    return message


def _text(message: EmailMessage) -> str:
    """Read the plain text of a message, or the text of its HTML; empty where it has neither."""
    body = message.get_body(preferencelist=("plain", "html"))
    if body is None:
        return ""
    payload = body.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    try:
        text = payload.decode(body.get_content_charset() or "utf-8", errors="replace")
    except LookupError:  # an unknown charset
        text = payload.decode("utf-8", errors="replace")
    if body.get_content_type() == "text/html":
        text = _Plain.of(text)
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


class _Plain(HTMLParser):
    """Collects the text of HTML, a line for each block."""

    _BLOCKS = ("br", "p", "div", "tr", "li", "h1", "h2", "h3", "h4", "blockquote")
    _UNSEEN = ("script", "style", "head", "title")

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []
        self._hidden = 0

    @classmethod
    def of(cls, html: str) -> str:
        """Return the text of an HTML document."""
        parser = cls()
        parser.feed(html)
        parser.close()
        lines = "".join(parser._parts).split("\n")
        return "\n".join(filter(None, map(str.strip, lines)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden = 0 if tag == "body" else self._hidden + (tag in self._UNSEEN)
        if tag in self._BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._hidden = max(0, self._hidden - (tag in self._UNSEEN))
        if tag in self._BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._parts.append(_BLANKS.sub(" ", data))
