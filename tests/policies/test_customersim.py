"""Invented dialogs in all the forms of CustomerSim: what is found is the secrets, to the letter."""

from __future__ import annotations

import pytest

from audit.core.spans import merged
from audit.policies import named

POLICY = named("customersim")
NAMES = (
    *("Orla Penrose", "Tam O'Dell", "Zoë Ångström", "Mary-Jane Fairweather", "Ravi Am", "Al Yes"),
    *("J. R. Hartwell", "Ana de Souza", "bea lindqvist", "Prospero", "José María del Río"),
)
ADDRESSES = (
    "14 Fictive Mews Northwold, ME 00012",
    "2077 Imagined Viaduct Suite 413 New Fablebury, OK 99304",
    "90012 Notional Knoll Apt. 006 Port Mythville, DC 12345-6789",
    "USCGC Fable FPO AA 66001",
    "USNS Fiction FPO AP 00119",
    "USNV Myth FPO AE 88123",
    "USS Story FPO AE 10101",
    "PSC 1234, Box 9876 APO AE 00990",
    "Unit 7001 Box 0042 DPO AP 55501",
    "3 rue de la Fable, Paris",
)
PHONES = (
    *("555.010.4477", "555-010-4477", "5550104477", "(555) 010-4477", "(555)010-4477"),
    *("555-010-4477x123", "555.010.4477 ext. 9", "+1-555-010-4477x00912", "001-555-010-4477"),
    *("1-555-010-4477", "555 010 4477", "010-4477", "+49 30 901820"),
)
ORDERS = ("111-22222-3333", "990-00001-0000", "11-2233-44", "1234567")
TRACKING = ("ZZ00YY11XX", "QQQQWWWWEE", "0123456789", "A000000001")

ASK_NAME = ("May I have your full name?", "Could you verify your full name?")
SAY_NAME = ("{}", "{}.", "Sure, {}.", "Yes, {}.", "I am {}.", "My name's {}.", "Yep - I'm {}.")
ASK = {
    "address": (
        "We will need the shipping address as well.",
        "Could you please confirm your shipping address?",
    ),
    "phone": ("Ok, may I have your phone number?", "Verify your phone number please."),
    "order": ("Can you provide the order number?", "Verify your order number please."),
}
SAY = {
    "address": (
        *("{}.", "Ok, it is {}.", "Yea sure, {}.", "My address is {}.", "Shipping address is {}."),
    ),
    "phone": (
        *("{}.", "{} is my number.", "my number is {}.", "Phone number is {}"),
        "You can reach me at {}.",
    ),
    "order": ("{}", "It's {}.", "Sure, it is {}", "Yes, {}.", "My order number is {}."),
}
FACTS = {"address": ADDRESSES, "phone": PHONES, "order": ORDERS}
GIVE = (
    "Track your order using your tracking number, {}. Are you happy about my answer?",
    "The tracking number is {}. Anything else?",
    "You can track your package with your tracking number, which is {}. What else can I do?",
    "The tracking number is {}. Is there anything else I can help with?",
)
HELLO = "SYS: Hello, I am the customer support bot. What can I do for you?\nUSR: Hi. {}\n"
BYE = "SYS: {}\nUSR: That's it. Thanks! Thank you.\nSYS: Have a nice day! Bye."


def found(text):
    return [text[low:high] for low, high in merged(POLICY(text))]


def covered(text, secret):
    start = text.index(secret)
    return any(low <= start and start + len(secret) <= high for low, high in merged(POLICY(text)))


def test_names_are_found_in_every_answer():
    for ask in (*ASK_NAME, "Please provide your full name."):
        for say in SAY_NAME:
            for name in NAMES:
                text = f"SYS: {ask}\nUSR: {say.format(name)}\nSYS: Goodbye."
                assert found(text) == [name]


@pytest.mark.parametrize("kind", list(FACTS))
def test_facts_are_found_in_every_answer(kind):
    common = {"address": ADDRESSES[:9], "phone": PHONES[:11], "order": ORDERS[:2]}[kind]
    for say in SAY[kind]:
        for fact in FACTS[kind]:
            for ask in ASK[kind]:
                assert found(f"SYS: {ask}\nUSR: {say.format(fact)}\nSYS: Bye.") == [fact]
        for fact in common:  # needs no question
            assert found(f"USR: {say.format(fact)}") == [fact]


def test_tracking_numbers_are_found():
    for give in GIVE:
        for number in TRACKING:
            assert found(f"SYS: {give.format(number)}\nUSR: All good.") == [number]


@pytest.mark.parametrize("kind", list(FACTS))
def test_two_secrets_in_one_answer_are_two_spans(kind):
    """Customers give a second fact unasked, before or after the first, with or without a dot."""
    name = "Orla Penrose"
    for ask in (ASK_NAME[0], ASK["phone"][0], ASK["order"][0], "What else can I do?"):
        for fact in FACTS[kind][:2]:
            for say in SAY[kind]:
                for answer in (f"{name} {say}", f"{name}. {say}", f"My name's {name}. {say}"):
                    text = f"SYS: {ask}\nUSR: {answer.format(fact)}\n"
                    assert found(text) == [name, fact]
            for say in SAY_NAME:
                for answer in (f"{fact} {say}", f"It's {fact}. {say}"):
                    text = f"SYS: {ask}\nUSR: {answer.format(name)}\n"
                    assert covered(text, fact) and covered(text, name)
                    if ask != ASK_NAME[0]:
                        assert found(text) == [fact, name]


def test_an_address_may_come_with_a_name():
    for fact in ADDRESSES[:9]:
        for answer in (f"{fact}. Yep - I'm Orla Penrose.", f"I am Orla Penrose. It's {fact}"):
            text = f"SYS: {ASK['address'][0]}\nUSR: {answer}\n"
            assert covered(text, fact) and covered(text, "Orla Penrose")


def test_capitalised_names_need_no_question():
    for say in SAY_NAME:
        for name in NAMES[:7]:
            assert found(f"USR: {say.format(name)}") == [name]


def test_whole_dialogs():
    for say, (kind, facts) in zip(SAY_NAME, list(FACTS.items()) * 3, strict=False):
        for fact, tracking, give in zip(facts, TRACKING, GIVE, strict=False):
            text = (
                HELLO.format("I ordered a floor lamp several days ago but I can't track it.")
                + f"SYS: {ASK_NAME[0]}\nUSR: {say.format('Orla Penrose')}\n"
                + f"SYS: {ASK[kind][0]}\nUSR: {SAY[kind][0].format(fact)}\n"
                + BYE.format(give.format(tracking))
            )
            assert found(text) == ["Orla Penrose", fact, tracking]
            assert found(text.replace("\n", "\r\n")) == ["Orla Penrose", fact, tracking]


def test_a_dialog_without_secrets_has_none():
    questions = [*ASK_NAME, *(ask for asks in ASK.values() for ask in asks)]
    asked = "".join(f"SYS: {ask}\n" for ask in questions)
    for matter in (
        "Could you please help me track my package?",
        "I placed an order but I don't know if it has been shipped.",
        "Where is my package?",
        "What's up? I ordered a mobile phone several days ago but I can't track it.",
    ):
        bye = BYE.format("It was a great pleasure helping you.")
        assert found(HELLO.format(matter) + asked + bye) == []


def test_cards_and_mail():
    text = "USR: card 4000123412341234 or 4000 1234 1234 1234, mail orla.p+x@mail.example.org."
    assert found(text) == ["4000123412341234", "4000 1234 1234 1234", "orla.p+x@mail.example.org"]


def test_any_answer_may_be_a_name():
    assert found("SYS: Please provide your full name.\nUSR: the queen of hearts") == [
        "the queen of hearts"
    ]
    assert found("USR: the queen of hearts") == []


def test_reading_time_is_linear_in_the_text():
    """Long runs of what a form begins with must not be read again from every place."""
    for piece in ("A", "Ab ", "1 ", "1-", "a.", "PSC ", "SYS: full name\nUSR: ", "I'm ", "1" * 9):
        POLICY(piece * 20_000)
