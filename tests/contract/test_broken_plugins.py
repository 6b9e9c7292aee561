"""The contract's checks die for what they are about: each mutant of the docs' examples is caught,
by the check it breaks and by no other."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from audit import contract
from audit.core.attack import Attack
from audit.core.defense import Defense

Checks = tuple[Callable[..., None], ...]
Blocks, Modules = Callable[[str, str], list[str]], Callable[[str], ModuleType]


def broken(made: object, checks: Checks) -> dict[str, str]:
    """What each check that is not passed says."""
    found = {}
    for check in checks:
        try:
            check(made)
        except AssertionError as error:
            found[check.__name__] = str(error)
    return found


def mutant(source: str, changes: tuple[str, ...]) -> str:
    """The source with every second text in place of the one before it."""
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


# defenses

GUARANTEE = 'no_guarantee("a random half is no protection")'
WHOLE = 'Guarantee(1.0, "user", "replace", "model", "worst case", "a theorem", delta=0.1)'
IMPORTED = "UsageError, derived_seed, no_guarantee"

IMPORT = "from audit.core import Corpus, Defense"


def promised(guarantee: str) -> tuple[str, ...]:
    return (IMPORTED, "UsageError, derived_seed, Guarantee", GUARANTEE, guarantee)


DEFENSES = [
    ((), {}),
    (promised(WHOLE), {}),
    (("@dataclass(frozen=True)", "@dataclass"),
     {"is_a_frozen_dataclass": "can be changed", "is_built_from_its_name_alone": "hash"}),
    (("class Halved(Defense):", "class Base(Defense):\n    trainings = release = None\n\n"
      "@dataclass(frozen=True)\nclass Halved(Base):"),
     {"is_final_on_top_of_abstract_classes": "derives from Base"}),
    (("\n    share: of the users that are trained on, above 0, at most 1.\n", ""),
     {"says_what_it_is_and_what_every_parameter_does": "no line `share: …`"}),
    (('"""Halved: fine-tunes on a random half of the users and promises nothing."""', ""),
     {"says_what_it_is_and_what_every_parameter_does": "the module of Halved has no docstring"}),
    (("share: float = 0.5", 'share: float = 0.5\n    rest: str = ""', "at most 1.\n",
      "at most 1.\n    rest: of the world.\n"),
     {"has_parameters_that_can_be_written": "cannot be written"}),
    (("share: float = 0.5", "share: int = 0.5"), {"has_parameters_that_can_be_written": "whole"}),
    ((IMPORT, f"from audit.core.secret import Secret\n{IMPORT}"),
     {"sees_no_attack_and_no_secret": "audit.core.secret"}),
    (("Corpus, Defense", "Corpus, Secret, Defense"),
     {"sees_no_attack_and_no_secret": "audit.core.Secret"}),
    (("share: float = 0.5", "share: float = 0.5\n    epsilon: float = float('inf')",
      "at most 1.\n", "at most 1.\n    epsilon: of nothing.\n"),
     {"has_a_finite_epsilon_by_default": "finite"}),
    (('stream(seed, "halved", "users").random(len(users))',
      "__import__('numpy').random.default_rng().random(len(users))"),
     {"names_the_same_trainings_again": "other trainings",
      "gives_the_same_release_again": "other answers"}),
    (('corpus.of("private") if r.user in kept', "corpus.records"),
     {"trains_on_no_held_out_text": "held-out"}),
    (promised(WHOLE.replace('"replace"', '""')), {"states_a_whole_guarantee": "relation is ''"}),
    (promised(WHOLE.replace('"user"', '""')), {"states_a_whole_guarantee": "no unit"}),
    (promised(WHOLE.replace("delta=0.1", "")), {"states_a_whole_guarantee": "either δ or"}),
    (promised(WHOLE.replace('"a theorem"', '""')), {"states_a_whole_guarantee": "no theorem"}),
    (promised(WHOLE.replace("worst case", "best case")), {"states_a_whole_guarantee": "basis"}),
]  # fmt: skip


def test_a_broken_defense_is_caught(blocks: Blocks, module: Modules) -> None:
    (source, *_) = blocks("adding-a-defense", "python")
    for changes, expected in DEFENSES:
        made = module(mutant(source, changes)).Halved()
        assert isinstance(made, Defense)
        agree(broken(made, contract.DEFENSE_CHECKS), expected)


def agree(found: dict[str, str], expected: dict[str, str]) -> None:
    assert found.keys() == expected.keys(), (found, expected)
    for name, words in expected.items():
        assert words in found[name] and "\n" not in found[name]


# a service that charges

SERVICE = '''
"""Priced: the undefended model, a thousandth of a nat a token. What it claims is made up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from audit.core.defense import Defense
from audit.core.training import Training
from audit.core.guarantee import Guarantee, no_guarantee
from audit.core.language_model import OpenSession
from audit.core.ledger import Ledger
from audit.core.predictor import Access
from audit.core.release import ModelRelease, Release


@dataclass(frozen=True)
class Priced(Defense):
    """Fine-tunes on all users and counts what it is asked."""

    def trainings(self, corpus, model, recipe, seed):
        return [Training("priced", tuple(r.text for r in corpus.of("private")), recipe, seed)]

    def release(self, public, trained):
        return Service(trained[0].model)


@dataclass(frozen=True)
class Service(Release):
    model: object
    guarantee = Guarantee(1.0, "user", "replace", "predictions", "worst case", "none", delta=0.1)

    def open(self, stream, journal):
        return Session(OpenSession(self.model, stream), Ledger(1.0, 1, 100, journal))

    def unprotected(self):
        return ModelRelease(self.model, no_guarantee("as it says"))

    def neighbour(self, unit):
        return None


@dataclass(frozen=True)
class Session:
    inner: OpenSession
    ledger: Ledger
    access = Access.GENERATE
    readable = Access.DISTRIBUTION

    @property
    def tokenizer(self):
        return self.inner.tokenizer

    @property
    def remaining(self):
        return self.ledger.remaining

    def generate(self, prompts, length):
        answers = self.inner.generate(prompts, length)
        marks = [self.ledger.mark([*p, i]) for p in prompts for i in range(length)]
        self.ledger.admit(np.full((len(marks), 1), 1e-3), np.empty((len(marks), 0)), marks)
        self.ledger.flush()
        return answers

    def score(self, prefixes, continuations):
        return self.inner.score(prefixes, continuations)

    def distribution(self, contexts, choices):
        return self.inner.distribution(contexts, choices)
'''
SERVICES = [
    ((), {}),
    (("        self.ledger.flush()\n", ""), {"charges_before_it_answers": "12 tokens answered, 0"}),
    (("self.ledger.flush()", "try:\n            self.ledger.flush()\n        except OSError: pass"),
     {"charges_before_it_answers": "could not be written"}),
    (("100, journal", "100, __import__('audit.core').core.NoJournal()"),
     {"charges_before_it_answers": "0 charged"}),
    (("self.ledger.remaining", "None"), {"charges_before_it_answers": "needs a budget"}),
    (("def open(self, stream, journal)", "def open(self, stream, journal, held=[])",
      "Ledger(1.0, 1, 100, journal)",
      "(held or held.append(Ledger(1.0, 1, 100, journal)) or held)[0]"),
     {"opens_every_session_afresh": "queries left", "charges_before_it_answers": "0 charged"}),
    (("for i in range(length)]", "for i in range(length - 1)]"),
     {"opens_every_session_afresh": "9 counted", "charges_before_it_answers": "9 charged"}),
    (("OpenSession(self.model, stream)", "OpenSession(self.model, np.random.default_rng())"),
     {"gives_the_same_release_again": "other answers",
      "repeats_a_killed_session": "other answers"}),
    (("mark([*p, i])", "mark(np.random.default_rng().random(2))"),
     {"repeats_a_killed_session": "charged twice"}),
    (('no_guarantee("as it says")', "self.guarantee"),
     {"has_a_control_that_promises_nothing": "must promise nothing"}),
    (("return answers", "return answers[1:]"), {"answers_as_it_declares": "4 tokens a prompt"}),
    (("inner.generate(prompts, length)", "inner.generate(prompts, length - 1)"),
     {"answers_as_it_declares": "4 tokens a prompt"}),
    (("readable = Access.DISTRIBUTION", "readable = 0"), {"answers_as_it_declares": "can be read"}),
    (("return self.inner.distribution(contexts, choices)",
      "p, n = self.inner.distribution(contexts, choices)\n        return p + 0.1, n"),
     {"answers_as_it_declares": "sums to 1.1"}),
    (("1e-3", "0.3"), {"charges_before_it_answers": "12 tokens answered, 3 charged"}),
]  # fmt: skip


def test_a_broken_service_is_caught(module: Modules) -> None:
    for changes, expected in SERVICES:
        made = module(mutant(SERVICE, changes)).Priced()
        agree(broken(made, contract.DEFENSE_CHECKS), expected)


# attacks

SHAPE = 'return [Likelihoods(np.full(len(secrets), np.nan), kind="code")]'
READ = "log_probs[i] = answer.log_probs.sum()"
ATTACKS = [
    ((), {}),
    (("@dataclass(frozen=True)", ""),
     {"is_a_frozen_dataclass": "is no dataclass", "is_built_from_its_name_alone": "differ"}),
    (('"""Reads the probability of each candidate code."""', ""),
     {"says_what_it_is_and_what_every_parameter_does": "no docstring"}),
    (('kinds = ("code",)', 'kinds = ("password",)'),
     {"declares_what_it_needs": "some of code", "can_be_rehearsed": "asks nothing"}),
    (("import numpy as np\n", "import numpy as np\nfrom audit.core.secret import Coins\n"),
     {"sees_no_coin_and_no_defense": "Coins"}),
    (("import numpy as np\n", "import numpy as np\nfrom audit.planting.planting import plant\n"),
     {"sees_no_coin_and_no_defense": "plant"}),
    (("Access, Attack", "Access, Guarantee, Attack"), {"sees_no_coin_and_no_defense": "Guarantee"}),
    (("import numpy as np\n", "import numpy as np\nfrom defenses import submix\n"),
     {"sees_no_coin_and_no_defense": "defenses"}),
    (("affordable(list(map(len, values)), predictor.remaining)", "len(values)"),
     {"asks_no_more_than_is_left": "of 0 that are left"}),
    (("predictor.readable < self.access", "False"),
     {"reads_nothing_that_cannot_be_read": "more than generate",
      "finds_nothing_stronger_than_the_release": "beyond generate"}),
    (("remaining)", "remaining and predictor.remaining // 2)",
      READ, f"{READ}\n                predictor.generate(prompts[:1], 1)"),
     {"generates_before_it_reads": "generates after"}),
    ((READ, f"{READ} - knowledge.public.score(prompts[i:i+1], values[i:i+1])[0].log_probs.sum()"),
     {"does_without_a_public_model": "without knowledge.public"}),
    ((READ, f"{READ} - np.random.default_rng().random()"),
     {"gives_the_same_evidence_again": "different evidence"}),
    ((SHAPE, f"{SHAPE}[:0]", "return self.shape(secrets, public=True)", SHAPE),
     {"gives_findings_within_its_tests": "its shape 0", "does_without_a_public_model": "shape 0"}),
    ((SHAPE, f"{SHAPE} if public else []"),
     {"does_without_a_public_model": "without knowledge.public; its shape 0"}),
]  # fmt: skip


def test_a_broken_attack_is_caught(blocks: Blocks, module: Modules) -> None:
    (source, *_) = blocks("adding-an-attack", "python")
    for changes, expected in ATTACKS:
        made = module(mutant(source, changes)).Likelihood()
        assert isinstance(made, Attack)
        agree(broken(made, contract.ATTACK_CHECKS), expected)


def test_every_check_is_broken_by_a_mutant() -> None:
    caught = {name for _, expected in (*DEFENSES, *SERVICES, *ATTACKS) for name in expected}
    checks = {*contract.DEFENSE_CHECKS, *contract.ATTACK_CHECKS}
    assert caught == {check.__name__ for check in checks}


@pytest.mark.parametrize("all_checks", [contract.check_defense, contract.check_attack])
def test_all_at_once_stops_at_the_first_broken(all_checks: Callable[[object], None]) -> None:
    class Nothing:
        """Neither a defense nor an attack."""

    with pytest.raises(AssertionError, match="no dataclass"):
        all_checks(Nothing())
