"""Writes exports of invented people who write to a firm: a mailbox, tickets, chats.

python -m tests.exports PEOPLE mail.mbox|tickets.csv|chats.json
"""

from __future__ import annotations

import csv
import importlib.util
import json
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
ANSWER = (
    "{thanks}, {first}. We will be at {house} {street} in {town} {when}. Your order is #{order}, "
    "and we will call you on {phone}."
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
        address = address_of(person.name)
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


def address_of(name: str) -> str:
    """Where an invented person writes from."""
    return f"{name.replace(' ', '.').lower()}@mail.example"


def write(path: Path, people: int, seed: int = 0) -> None:
    """Write an export of so many people, by the ending of its file."""
    {".mbox": _mailbox, ".csv": _tickets, ".json": _chats}[path.suffix](path, people, seed)


def _mailbox(path: Path, people: int, seed: int) -> None:
    box = mailbox.mbox(path)
    for mail in mails(people, seed):
        box.add(mail)
    box.close()


def _tickets(path: Path, people: int, seed: int) -> None:
    """Write a table as help desks export it: a line for each ticket, with line breaks in cells."""
    with path.open("w", encoding="utf-8-sig", newline="") as file:
        table = csv.writer(file)
        table.writerow(["Ticket ID", "Created", "Requester", "Subject", "Description"])
        for number, mail in enumerate(mails(people, seed)):
            day = f"2024-03-{1 + number % 28:02}"
            text = mail.get_content().strip()
            table.writerow([4000 + number, day, mail["From"], mail["Subject"], text])


def _chats(path: Path, people: int, seed: int) -> None:
    """Write conversations in the form of ShareGPT, all with one system prompt and greeting."""
    desk, rng, talks = _helpdesk(), Random(seed), []
    choices = {**desk.CHOICES, "matter2": desk.CHOICES["matter"]}
    for person in desk.people(rng, people):
        for _ in range(rng.randint(1, 2)):
            turns = [
                ("system", "You answer customers of a gas company."),
                ("human", f"Good morning. {desk.tell(rng, TEMPLATE, person, choices)}"),
                ("gpt", desk.tell(rng, ANSWER, person, choices)),
            ]
            said = [{"from": role, "value": text} for role, text in turns]
            talks.append({"id": len(talks), "customer": person.name, "conversations": said})
    path.write_text(json.dumps(talks, indent=1), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[2]), int(sys.argv[1]))
