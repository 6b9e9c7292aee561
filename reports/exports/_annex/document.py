"""annex.json, schema version 1: the document that the page and the print are made of."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from audit.core.terms import Leaked, OnClaim
from audit.results.numbers import Bounds, Confidence, Count, Number
from audit.results.part import words_of


class Answer(StrEnum):
    """Answer to a row. None of these states that a requirement is met."""

    LEAK = "leak"
    REFUTED = "claim refuted"
    INSIDERS = "leak to insiders"
    INCONCLUSIVE = "inconclusive"
    NONE_FOUND = "no leak found"
    NOT_REFUTED = "claim not refuted"
    NOT_TESTED = "claim not tested"
    NOTHING_CLAIMED = "nothing claimed"
    UNKNOWN = "claim unknown"
    RECORDED = "recorded"
    NOT_COVERED = "not covered"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(_Strict):
    """Facts that the run has on record."""

    term: str = Field(description="what it is about, often the name of a release")
    text: str = Field(description="what is on record")


class Place(_Strict):
    """Where the evidence stands in the report."""

    title: str = Field(description="section of the report")
    target: str = Field(description="the same as a link, relative to the run folder")


class Figure(_Strict):
    """One measure of an attack, as results.json has it."""

    release: str = Field(description="name of the release")
    attack: str = Field(description="name of the attack")
    metric: str = Field(description="name of the measure")
    access: str = Field(description="what is read: generate, score, distribution, or released text")
    stronger_than_release: bool = Field(description="whether that is more than the release gives")
    unit: str = Field(description="unit of the value")
    value: Number | None = Field(description="null: not measured")
    ci: Bounds | None = Field(description="interval of the value; null: none")
    confidence: Confidence = Field(description="of the interval")
    method: str = Field(description="of the interval")
    k: Count | None = Field(description="successes; null: the value is no count")
    n: Count = Field(description="trials")
    control: Number | None = Field(description="the same on twins, which were not trained on")
    epsilon_lower: Number | None = Field(description="lower bound on ε in nats; null: none")
    epsilon_scope: str = Field(description="unit, relation, δ and evidence of that bound")
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="what leaked")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="what this says of the claim")
    tally: str = Field(description="answers of all measures of the attack on this release")
    certainty: str = Field(description="the ε that it shows, or what it could have shown")
    name: str = Field(description="the attack and the measure in words")
    measured: str = Field(description="value, interval, unit and n in words")
    answer: str = Field(description="what leaked, in words")
    on_claim: str = Field(description="what it says about the claim, in words")


class Row(_Strict):
    """One requirement of a source, and what the run shows of it."""

    key: str = Field(description="name of the row, for references")
    section: str = Field(description="place in the source")
    title: str = Field(description="name of the row for readers")
    requirement: str = Field(description="what is asked for, in the words of audit")
    wording: Literal["checked wording", "unchecked wording"] = Field(
        description="whether the requirement was compared with the source itself"
    )
    compared: str = Field(description="what the wording was compared with")
    answer: Annotated[Answer, words_of(Answer)] = Field(description="the worst of all releases")
    note: str = Field(description="how to read the answer, or why nothing is covered")
    facts: list[Fact] = Field(description="what the run has on record")
    figures: list[Figure] = Field(description="of each attack the measure that it is quoted by")
    places: list[Place] = Field(description="where the evidence stands in the report")


class Source(_Strict):
    """A published text, and its rows."""

    key: str = Field(description="name of the source, for references")
    title: str = Field(description="title of the text")
    publisher: str = Field(description="who published it")
    edition: str = Field(description="its version or date")
    url: str = Field(description="where it is published")
    reached: str = Field(description="which text the wording was checked against")
    rows: list[Row] = Field(description="its requirements, in its order")


class Release(_Strict):
    """One audited release, with its claim and both answers."""

    name: str = Field(description="its defense, and what sets it apart")
    role: str = Field(description="its part in the run")
    epsilon: Number | None = Field(description='claimed, in nats; "inf": none; null: not known')
    delta: Number | None = Field(description="δ of the claim; null: none")
    alpha: Number | None = Field(description="Rényi order of the claim")
    unit: str = Field(description="what the claim hides as a whole")
    relation: str = Field(description="how neighbouring data differ in one unit")
    basis: str = Field(description="worst case, or data-dependent")
    claimed: str = Field(description="the claim in words")
    insiders: str = Field(description="says so where a leak needs more than the release gives")
    leaked: Annotated[Leaked, words_of(Leaked)] = Field(description="over all its measures")
    claim: Annotated[OnClaim, words_of(OnClaim)] = Field(description="over all its measures")
    on_claim: str = Field(description="what they say about the claim, in words")


class Annex(_Strict):
    """The annex of one run, or of a sweep with each setting as a release."""

    schema_version: Literal["1"] = Field(default="1", description="of this document")
    status: Literal["complete", "partial"] = Field(description="of the run")
    title: str = Field(description="heading of the annex")
    subtitle: str = Field(description="line above it, with the name of the corpus")
    statements: list[str] = Field(description="what the annex is, and what it is not")
    plan_hash: str = Field(description="hash of the plan, as in results.json")
    releases: list[Release] = Field(description="audited releases, at most 12")
    sources: list[Source] = Field(description="the texts")


def to_json(annex: Annex) -> str:
    """Format annex.json: keys in the order of the schema, one trailing newline, no NaN."""
    document = annex.model_dump(mode="json")
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """Return the JSON Schema of annex.json."""
    return Annex.model_json_schema(mode="serialization")
