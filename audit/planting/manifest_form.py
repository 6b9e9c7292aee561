"""The form of a manifest, which whoever computes a checksum can still write wrongly."""

from __future__ import annotations

from abc import ABC
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from audit.core.secret import KINDS, LARGEST, TURNS


def _is_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


Text = Annotated[Any, AfterValidator(_is_text)]  # str would refuse names of files not in UTF-8
Natural = Annotated[int, Field(ge=0)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Kind = Literal[KINDS]  # type: ignore[valid-type]
FORM = "audit plant 2"
EARLIER = "audit plant 1"  # its draws are of the seed alone
LATER = ("source", "sentences", "stems", "beacons", "share")


class Closed(BaseModel):
    """Has these fields and no others, of these types and no likely ones."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Coin(Closed):
    """The two coins of a user."""

    present: bool
    slot: Literal[0, 1]


class OneUser(Closed):
    """The two coins of a real user, and how many records the user has."""

    present: bool
    slot: Literal[0, 1]
    records: Annotated[int, Field(ge=1)]


class Symbols(Closed):
    """A space: the distinct sets of symbols, and the index of the set at each place."""

    symbols: list[Annotated[list[Text], Field(min_length=1)]]
    places: list[Natural]


class OneDraw(Closed):
    """A value that was drawn for all secrets of a kind; `space` is an index."""

    value: Text
    space: Natural


class Worded(Closed, ABC):
    """A value with the words around it."""

    kind: Kind
    prefix: Text
    value: Text
    suffix: Text


class OneSecret(Worded):
    """A candidate; `space` is an index."""

    space: Natural | None
    copies: Annotated[int, Field(ge=1, le=LARGEST["copies"])]
    owner: Text
    slot: Literal[0, 1]


class OneBeacon(Worded):
    """A value that users share; `space` is an index."""

    space: Natural
    users: Annotated[list[Text], Field(min_length=2)]


class Beginning(Closed):
    """The beginning of planted conversations."""

    system: Text
    asked: Annotated[Text, Field(min_length=1)]


class Users(Closed):
    """Real users with coins, and the digest of the file that holds their records."""

    sha256: Digest
    users: Annotated[dict[Text, OneUser], Field(min_length=2)]


class Size(Closed):
    """Users and records."""

    users: Natural
    records: Natural


class Origin(Closed):
    """The corpus."""

    name: Text
    sha256: str
    texts: str


class Form(Closed):
    """The whole document, without its checksum."""

    form: Literal["audit plant 1", "audit plant 2"]
    corpus: Origin
    records: Natural
    users: Natural
    population: Size
    seed: int
    key: Annotated[str, Field(pattern=r"^([0-9a-f]{2}){16,}$")]  # no shorter one hides values
    coins: dict[Text, Coin]
    spaces: list[Symbols]
    secrets: Annotated[list[OneSecret], Field(min_length=1)]
    source: Digest | None = None
    sentences: dict[Kind, OneDraw] | None = None
    stems: dict[Kind, OneDraw] | None = None
    beacons: list[OneBeacon] | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    design: dict[str, Any] | None = None
    turn: Literal[TURNS] | None = None  # type: ignore[valid-type]
    manner: Beginning | None = None
    own: Users | None = None
    user_is: Text = ""


def fault(document: Mapping[str, Any]) -> str:
    """Describe in one line the first fault of a manifest's content; "" where there is none."""
    try:
        form = Form.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return next(_contradictions(form), "")


def _contradictions(form: Form) -> Iterator[str]:
    """Yield what no planting writes; the first one counts, for later parts rely on the earlier."""
    for name in LATER:
        if (form.form == EARLIER) != (getattr(form, name) is None):
            yield f"{name}: {'is of a later form' if form.form == EARLIER else 'is missing'}"
    for number, space in enumerate(form.spaces):
        if max(space.places, default=0) >= len(space.symbols):
            yield f"spaces.{number}: names a set of symbols that is not there"
    yield from _undrawn(form)
    for number, secret in enumerate(form.secrets):
        if secret.owner not in form.coins:
            yield f"secrets.{number}: its owner has no coin"
    yield from _unborne(form)
    yield from _mixed(form)
    yield from _unpaired(form)


def _undrawn(form: Form) -> Iterator[str]:
    """Yield values that no draw from their space gives."""
    drawn = [_Draws(space) for space in form.spaces]
    rows: list[tuple[str, OneSecret | OneDraw | OneBeacon]] = [
        *((f"secrets.{number}", one) for number, one in enumerate(form.secrets)),
        *((f"sentences.{kind}", one) for kind, one in (form.sentences or {}).items()),
        *((f"stems.{kind}", one) for kind, one in (form.stems or {}).items()),
        *((f"beacons.{number}", one) for number, one in enumerate(form.beacons or ())),
    ]
    for where, one in rows:
        if one.space is not None and one.space >= len(drawn):
            yield f"{where}: its space is not there"
        elif one.space is not None and one.value not in drawn[one.space]:
            yield f"{where}: its value is none of its space"


def _unborne(form: Form) -> Iterator[str]:
    """Yield a sentence or stem that the secrets of its kind do not bear."""
    own: defaultdict[str, list[OneSecret]] = defaultdict(list)
    for secret in form.secrets:
        own[secret.kind].append(secret)
    for kind, draw in (form.sentences or {}).items():
        if {secret.prefix for secret in own[kind]} != {draw.value}:
            yield f"sentences.{kind}: is not that of its secrets"
    for kind, draw in (form.stems or {}).items():
        if {secret.value.startswith(draw.value) for secret in own[kind]} != {True}:
            yield f"stems.{kind}: is not that of its secrets"


def _mixed(form: Form) -> Iterator[str]:
    """Yield a beacon or a real user who has something of those with coins."""
    secrets = {(secret.kind, secret.value) for secret in form.secrets}
    sentences = {secret.prefix for secret in form.secrets} - {""}
    seen = set(form.coins)
    for number, beacon in enumerate(form.beacons or ()):
        if (beacon.kind, beacon.value) in secrets or beacon.prefix in sentences:
            yield f"beacons.{number}: has the value or the sentence of a secret"
        if len({*seen, *beacon.users}) < len(seen) + len(beacon.users):
            yield f"beacons.{number}: a user is named twice, or has a coin"
        seen |= set(beacon.users)
    if form.own is not None and seen & set(form.own.users):
        yield "own: a real user is also one who was invented"


class _Draws:
    """All values that a space has."""

    def __init__(self, space: Symbols) -> None:
        sets = [(frozenset(symbols), set(map(len, symbols))) for symbols in space.symbols]
        self._places = [sets[place] for place in space.places]

    def __contains__(self, value: str) -> bool:
        """Read a value from its beginning, symbol by symbol."""
        rests = {value}
        for symbols, lengths in self._places:
            rests = {rest[n:] for rest in rests for n in lengths if rest[:n] in symbols}
        return "" in rests


def _unpaired(form: Form) -> Iterator[str]:
    """Yield a user without two candidates of a kind, of as many copies, or without any."""
    copies: dict[tuple[Any, Any, int], int]
    copies = {(s.owner, s.kind, s.slot): s.copies for s in form.secrets}
    if len(copies) < len(form.secrets):
        yield "secrets: a user has a candidate twice"
    for owner, kind, slot in copies:
        if copies[owner, kind, slot] != copies.get((owner, kind, 1 - slot)):
            yield f"secrets: user {owner!r} has no two alike candidates of kind {kind}"
    lone = form.coins.keys() - {secret.owner for secret in form.secrets}
    if lone:
        yield f"coins: user {min(lone)!r} has no secret"
