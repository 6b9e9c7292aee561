"""The form of a manifest, which whoever computes a checksum can still write wrongly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from audit.core.secret import KINDS, LARGEST, TURNS


def _is_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is no text")
    return value


Text = Annotated[Any, AfterValidator(_is_text)]  # str would refuse names of files not in UTF-8
Natural = Annotated[int, Field(ge=0)]
FORM = "audit plant 2"
EARLIER = "audit plant 1"  # its draws are of the seed alone
LATER = ("source", "sentences", "stems", "beacons", "share")
_CLOSED = ConfigDict(extra="forbid", strict=True)


class Coin(BaseModel):
    """The two coins of a user."""

    model_config = _CLOSED
    present: bool
    slot: Literal[0, 1]


class Symbols(BaseModel):
    """A space: the distinct sets of symbols, and the index of the set at each place."""

    model_config = _CLOSED
    symbols: list[Annotated[list[Text], Field(min_length=1)]]
    places: list[Natural]


class OneSecret(BaseModel):
    """A candidate; `space` is an index."""

    model_config = _CLOSED
    kind: Literal[KINDS]  # type: ignore[valid-type]
    prefix: Text
    value: Text
    suffix: Text
    space: Natural | None
    copies: Annotated[int, Field(ge=1, le=LARGEST["copies"])]
    owner: Text
    slot: Literal[0, 1]


class OneDraw(BaseModel):
    """A value that was drawn for all secrets of a kind; `space` is an index."""

    model_config = _CLOSED
    space: Natural
    value: Text


class OneBeacon(BaseModel):
    """A value that users share; `space` is an index."""

    model_config = _CLOSED
    kind: Literal[KINDS]  # type: ignore[valid-type]
    prefix: Text
    value: Text
    suffix: Text
    space: Natural
    users: Annotated[list[Text], Field(min_length=2)]


class OneUser(BaseModel):
    """The two coins of a real user, and how many records the user has."""

    model_config = _CLOSED
    present: bool
    slot: Literal[0, 1]
    records: Annotated[int, Field(ge=1)]


class Beginning(BaseModel):
    """The beginning of planted conversations."""

    model_config = _CLOSED
    system: Text
    asked: Annotated[Text, Field(min_length=1)]


class Users(BaseModel):
    """Real users with coins, and the digest of the file that holds their records."""

    model_config = _CLOSED
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    users: Annotated[dict[Text, OneUser], Field(min_length=2)]


class Size(BaseModel):
    """Users and records."""

    model_config = _CLOSED
    users: Natural
    records: Natural


class Origin(BaseModel):
    """The corpus."""

    model_config = _CLOSED
    name: Text
    sha256: str
    texts: str


class Form(BaseModel):
    """The whole document, without its checksum."""

    model_config = _CLOSED
    form: Literal["audit plant 1", "audit plant 2"]
    corpus: Origin
    records: Natural
    users: Natural
    population: Size
    seed: int
    key: Annotated[str, Field(pattern=r"^([0-9a-f]{2})+$")]
    coins: dict[Text, Coin]
    spaces: list[Symbols]
    secrets: Annotated[list[OneSecret], Field(min_length=1)]
    design: dict[str, Any] | None = None
    turn: Literal[TURNS] | None = None  # type: ignore[valid-type]
    manner: Beginning | None = None
    source: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    sentences: dict[Literal[KINDS], OneDraw] | None = None  # type: ignore[valid-type]
    stems: dict[Literal[KINDS], OneDraw] | None = None  # type: ignore[valid-type]
    beacons: list[OneBeacon] | None = None
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    own: Users | None = None
    user_is: Text = ""


def fault(document: Mapping[str, Any]) -> str:
    """Describe in one line the first fault of a manifest's content; "" where there is none."""
    try:
        form = TypeAdapter(Form).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}"
    return _untimely(form) or _dangling(form) or _undrawn(form) or _mixed(form) or _unpaired(form)


def _untimely(form: Form) -> str:
    """Find what a manifest of this form always has, or never."""
    for name in LATER:
        if (form.form == EARLIER) != (getattr(form, name) is None):
            return f"{name}: {'is of a later form' if form.form == EARLIER else 'is missing'}"
    return ""


def _dangling(form: Form) -> str:
    """Find a reference to what is not there, or a value that no draw gives."""
    for number, space in enumerate(form.spaces):
        if max(space.places, default=0) >= len(space.symbols):
            return f"spaces.{number}: names a set of symbols that is not there"
    drawn = [_Draws(space) for space in form.spaces]
    for number, secret in enumerate(form.secrets):
        if secret.owner not in form.coins:
            return f"secrets.{number}: its owner has no coin"
        if secret.space is not None:
            if secret.space >= len(form.spaces):
                return f"secrets.{number}: its space is not there"
            if secret.value not in drawn[secret.space]:
                return f"secrets.{number}: its value is none of its space"
    return ""


def _undrawn(form: Form) -> str:
    """Find a sentence or stem that no draw gives, or that its secrets do not bear."""
    for name, draws in (("sentences", form.sentences or {}), ("stems", form.stems or {})):
        for kind, draw in draws.items():
            if draw.space >= len(form.spaces):
                return f"{name}.{kind}: its space is not there"
            if draw.value not in _Draws(form.spaces[draw.space]):
                return f"{name}.{kind}: is none of its space"
            own = [secret for secret in form.secrets if secret.kind == kind]
            held = ((s.prefix == draw.value, s.value.startswith(draw.value)) for s in own)
            if not own or not all(one[name == "stems"] for one in held):
                return f"{name}.{kind}: is not that of its secrets"
    return ""


def _mixed(form: Form) -> str:
    """Find a beacon that is not one: not drawn, or of a user or a value that has a coin."""
    secrets = {(secret.kind, secret.value) for secret in form.secrets}
    sentences = {secret.prefix for secret in form.secrets} - {""}
    seen = set(form.coins)
    for number, beacon in enumerate(form.beacons or ()):
        if beacon.space >= len(form.spaces):
            return f"beacons.{number}: its space is not there"
        if beacon.value not in _Draws(form.spaces[beacon.space]):
            return f"beacons.{number}: its value is none of its space"
        if (beacon.kind, beacon.value) in secrets or beacon.prefix in sentences:
            return f"beacons.{number}: has the value or the sentence of a secret"
        if len({*seen, *beacon.users}) < len(seen) + len(beacon.users):
            return f"beacons.{number}: a user is named twice, or has a coin"
        seen |= set(beacon.users)
    if form.own is not None and seen & set(form.own.users):
        return "own: a real user is also one who was invented"
    return ""


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


def _unpaired(form: Form) -> str:
    """Find a user without two candidates of a kind, of as many copies, or without any."""
    slots = Counter((s.owner, s.kind, s.slot) for s in form.secrets)
    if max(slots.values()) > 1:
        return "secrets: a user has a candidate twice"
    copies: dict[tuple[Any, Any, int], int]
    copies = {(s.owner, s.kind, s.slot): s.copies for s in form.secrets}
    for owner, kind, slot in copies:
        if copies[owner, kind, slot] != copies.get((owner, kind, 1 - slot)):
            return f"secrets: user {owner!r} has no two alike candidates of kind {kind}"
    lone = form.coins.keys() - {secret.owner for secret in form.secrets}
    return f"coins: user {min(lone)!r} has no secret" if lone else ""
