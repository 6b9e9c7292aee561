"""spaCy policies, with pipelines made of rules."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from audit.core.errors import UsageError
from audit.policies import _pipeline, named
from audit.policies.contextual import Contextual
from audit.policies.entities import ONTONOTES, Entities
from tests.refusals import refusals

FIRMS = {"label": "ORG", "pattern": "Quill Works"}
TEXT = "Orla Penrose of Quill Works, Kelham: the engineer sent a letter to town as she sent"


@pytest.fixture(scope="module")
def folder(pipeline):
    return pipeline(FIRMS)


def found(policy, text=TEXT):
    return [text[low:high] for low, high in policy(text)]


def test_entities_are_found(folder):
    assert found(named(f"entities,pipeline={folder}")) == ["Orla Penrose", "Quill Works"]
    assert found(named(f"entities:ORG,pipeline={folder}")) == ["Quill Works"]
    both = named(f"entities:ORG+PERSON+ORG,pipeline={folder}")
    assert found(both) == ["Orla Penrose", "Quill Works"]
    assert both.label == "entities:ORG+PERSON,pipeline=made"


def test_the_order_of_types_changes_no_digest(folder):
    one, other = Entities(("ORG", "PERSON"), folder), Entities(("PERSON", "ORG"), folder)
    assert one.digest == other.digest != Entities(("ORG",), folder).digest


def test_context_is_entities_and_roles(folder):
    policy = named(f"contextual,pipeline={folder}")
    names = ["Orla Penrose", "Quill Works", "Kelham"]
    assert found(policy) == [*names, "engineer", "letter", "town", "she"]
    assert policy.label == "contextual,pipeline=made"


def test_words_inside_an_entity_are_one_span(pipeline):
    policy = named(f"contextual,pipeline={pipeline({'label': 'GPE', 'pattern': 'Kelham town'})}")
    assert found(policy, "in Kelham town, town") == ["Kelham town", "town"]


def test_tags_stand_for_parts_of_speech():
    from spacy.tokens import Doc
    from spacy.vocab import Vocab

    words, tags = ["Ann", "saw", "her", "own", "dog"], ["NNP", "VBD", "PRP$", "JJ", "NN"]
    doc = Doc(Vocab(), words=words, tags=tags)
    assert list(Contextual().private(doc)) == [(0, 3), (8, 11)]


def test_default_pipelines_are_not_in_labels():
    assert Entities().label == "entities" and Contextual().label == "contextual"
    assert Entities(("DATE",)).label == "entities:DATE"
    assert len(set(ONTONOTES)) == 18


def test_a_missing_pipeline_is_refused(tmp_path, pipeline):
    broken = tmp_path / "broken"
    shutil.copytree(pipeline(), broken)
    (broken / "config.cfg").write_text('[nlp]\nlang = "en"\npipeline = 3\n', encoding="utf-8")
    for name in ("entities", "contextual"):
        for source in ("no_such_pipeline", tmp_path, tmp_path / "none", broken):
            words = (f"policy {name}: pipeline '{source}'", "python -m spacy download")
            refusals(named, [(f"{name},pipeline={source}", words)])


def test_a_folder_in_place_of_the_default_is_refused(pipeline, tmp_path, monkeypatch):
    shutil.copytree(pipeline(), tmp_path / _pipeline.DEFAULT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(_pipeline.spacy.util, "is_package", lambda name: False)
    refusals(named, [(name, "(it is not installed)") for name in ("entities", "contextual")])
    assert named(f"entities,pipeline=./{_pipeline.DEFAULT}")


def test_a_pipeline_without_what_is_needed_is_refused(pipeline):
    refusals(
        lambda given: named(f"{given[0]},pipeline={pipeline(**given[1])}"),
        [
            (("entities", {"entities": False}), "finds no entities; install one with"),
            (("contextual", {"entities": False}), "finds no entities; install one with"),
            (("contextual", {"grammar": False}), "finds no parts of speech; install one with"),
        ],
    )


def test_a_tagger_alone_gives_no_context(pipeline, monkeypatch):
    with pytest.raises(UsageError, match="finds no dependencies"):
        language = _pipeline._loaded(pipeline())
        monkeypatch.setattr(language.get_pipe_meta("made_grammar"), "assigns", ["token.tag"])
        monkeypatch.setattr(_pipeline, "_loaded", lambda source: language)
        named("contextual,pipeline=made")


def test_types_unknown_to_the_pipeline_are_refused(folder):
    refusals(
        lambda types: named(f"entities:{types},pipeline={folder}"),
        [
            ("ORG+PERSONS", "policy entities: unknown type 'PERSONS'; did you mean 'PERSON'?"),
            ("DATE", "unknown type 'DATE'; known: ORG, PERSON"),  # it would silently find none
        ],
    )


def test_a_text_beyond_the_pipeline_is_refused(folder, monkeypatch):
    policy = named(f"entities,pipeline={folder}")
    monkeypatch.setattr(_pipeline._loaded(folder), "max_length", 10)
    with pytest.raises(UsageError, match="has 11 characters, and its pipeline reads at most 10"):
        policy.many(["short", "12345678901"])


def test_every_pipeline_file_is_in_the_digest(pipeline):
    source = pipeline()
    policy = named(f"entities,pipeline={source}")
    before = policy.digest
    (Path(source) / "entity_ruler" / "more.txt").write_text("", encoding="utf-8")
    assert policy.digest != before
