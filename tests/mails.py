"""Writes a mailbox of invented people who write to a firm, and quote and forward each other.

python mails.py PEOPLE MAIL.mbox
"""

from __future__ import annotations

import importlib.util
import mailbox
import sys
from email.message import EmailMessage
from pathlib import Path
from random import Random
from types import ModuleType

TEMPLATE = (
    "{greeting} {matter} {matter2} My {thing} is at {house} {street}, {town}. "
    "Please call me on {phone} {when}, my order is #{order}."
)
REPLY = "Thank you, {when} is good. My {thing} is #{order}."


def _helpdesk() -> ModuleType:
    path = Path(__file__).parents[1] / "fixtures" / "helpdesk.py"
    spec = importlib.util.spec_from_file_location("helpdesk_of_mails", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def mails(people: int, seed: int = 0) -> list[EmailMessage]:
    """Make one to three mails of each person; every sixth answers another's, and quotes it."""
    desk, rng, sent = _helpdesk(), Random(seed), list[EmailMessage]()
    choices = {**desk.CHOICES, "matter2": desk.CHOICES["matter"]}
    for person in desk.people(rng, people):
        address = f"{person.name.replace(' ', '.').lower()}@mail.example"
        for _ in range(rng.randint(1, 3)):
            mail = EmailMessage()
            mail["From"], mail["To"] = f"{person.name} <{address}>", "desk@gas.example"
            mail["Message-ID"] = f"<{len(sent)}@mail.example>"
            text = desk.tell(rng, TEMPLATE, person, choices)
            subject = rng.choice(["Your visit", "An order", "A question"])
            if sent and rng.random() < 1 / 6:
                other = rng.choice(sent)
                quoted = "\n".join(f"> {line}" for line in other.get_content().splitlines())
                text = f"{desk.tell(rng, REPLY, person, choices)}\n\n{quoted}"
                subject, mail["In-Reply-To"] = "Re: Your visit", other["Message-ID"]
            mail["Subject"] = subject
            mail.set_content(text)
            sent.append(mail)
    return sent


def write(path: Path, people: int, seed: int = 0) -> None:
    """Write the mails of so many people as one mbox file."""
    box = mailbox.mbox(path)
    for mail in mails(people, seed):
        box.add(mail)
    box.close()


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
