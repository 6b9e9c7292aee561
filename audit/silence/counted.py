"""Contact of trainings that this tool made: counted while they ran, without a query of any session.

A planted person is reached in a training that holds one of the person's copies if each token of the
value was, in at least one copy, in the loss of a step that moved the weights, and the person's own
contribution to that step was above 0 after clipping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from audit.core.language_model import LanguageModel
from audit.core.model import TextTokenizer
from audit.core.predictor import token_mask
from audit.core.secret import OWN, Secret
from audit.core.spans import Span
from audit.core.words import continues
from audit.findings.shows import not_shown, shown
from audit.measure.releases import Audited
from audit.models.causal import CausalLM
from audit.prepare.run import Run
from audit.results.silence import REMOVED, Link
from audit.results.words import count
from audit.train import counted
from audit.train.counted import Counted, weights_digest
from audit.train.task import Task

REACHED = 0.9  # of the planted people of each tier; sampling may never draw the others
NOTHING = "Nothing was trained on private text, so no planted value could leak."
_NOTHING = Counted("", "", True, None, {})


@dataclass(frozen=True)
class Copy:
    """One planted copy: the text that holds it, and the tokens of the value, 0 the start token."""

    text: str
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Person:
    """A planted secret of one kind, with its copies in the corpus that defenses read."""

    tier: int
    copies: tuple[Copy, ...]


@dataclass(frozen=True)
class Phase:
    """One training on the way to a release, or its prompts. counted: None where it was lost."""

    task: Task
    counted: Counted | None
    prompted: bool = False

    @property
    def fault(self) -> str:
        """Return why nothing that it read can have reached the weights; "": there is no reason."""
        label = self.task.training.label
        if self.counted is None:
            return f"{label}: what its steps learnt from is not stored"
        if not self.counted.finite:
            return f"{label}: a weight is not finite after the training"
        still = not self.task.idle and not self.counted.moved
        return f"{label}: the training left every weight as it was" if still else ""

    def foreign(self, public: str, earlier: Mapping[str, Counted | None]) -> str:
        """Return that it did not start from the weights of the training before, or the public ones;
        "" where it did. public: digest of the public weights. earlier: by key."""
        if self.counted is None or self.task.idle or self.task.base.lora is not None:
            return ""
        before, expected = self.task.before, public
        while before is not None and before.idle:
            before = before.before
        if before is not None:
            left = earlier.get(before.key)
            expected = "" if left is None else left.after
        label = self.task.training.label
        return "" if self.counted.before == expected else f"{label}: started from other weights"

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, text in enumerate(self.task.training.texts):
            places.setdefault(text, []).append(place)
        return places

    def holds(self, person: Person) -> bool:
        """Return whether a copy of the person is in its texts, unchanged."""
        return any(copy.text in self._places for copy in person.copies)

    def times(self, person: Person) -> int:
        """Return how often the person's value was learnt whole, over all of its copies."""
        assert self.counted is not None
        return sum(
            self.counted.times(place, copy.tokens)
            for copy in dict.fromkeys(person.copies)
            for place in self._places.get(copy.text, ())
        )


def contact(run: Run, one: Audited) -> dict[str, Link]:
    """Find by kind of secret whether the planted values reached the weights of a release.

    Every model of an ensemble, every phase and the teachers of a student are asked for; so is the
    undefended model of the run, which the same loader fed.
    """
    phases = phases_of(run, one.tasks)
    fault = next((phase.fault for phase in phases if phase.fault), "")
    if not fault and any(not phase.task.idle for phase in phases):
        fault = _foreign(one.public, phases) or _control(run)
    people = people_of(run)
    return {
        kind: not_shown(f"{fault}.") if fault else link(kind, of_kind, phases)
        for kind, of_kind in people.items()
    }


def _foreign(public: LanguageModel, phases: Sequence[Phase]) -> str:
    """Return the first training that started from other weights than it should have; "": none."""
    if not isinstance(public, CausalLM):
        return ""
    digest = weights_digest(public.inner)
    earlier = {phase.task.key: phase.counted for phase in phases}
    return next((why for phase in phases if (why := phase.foreign(digest, earlier))), "")


def phases_of(run: Run, tasks: Iterable[Task]) -> list[Phase]:
    """List the trainings that lead to these, each once, with what their steps learnt from."""
    every = {t.key: t for task in tasks for t in (*task.all_earlier, task)}
    return [_phase(run, task) for task in every.values()]


def _phase(run: Run, task: Task) -> Phase:
    if not task.idle:
        return Phase(task, counted.read(task.counted_path))
    counts = task.training.method.prompted(task.training, run.tokenizer)
    if counts is None:
        return Phase(task, _NOTHING)
    return Phase(task, Counted("", "", True, None, counts.of_texts()), prompted=True)


def _control(run: Run) -> str:
    """Return why the undefended model shows no learning; "" where it does, or was not trained."""
    tasks = (t for chosen, some in run.tasks.items() if chosen.name == "none" for t in some)
    for phase in phases_of(run, tasks):
        learning = None if phase.counted is None else phase.counted.learning
        if phase.fault or learning is None:
            return phase.fault or "the undefended model of this run was not trained"
        if not learning[1] < learning[0]:
            return (
                "the undefended model of this run did not learn: its loss went from "
                f"{learning[0]:.3g} to {learning[1]:.3g} nats a token"
            )
    return ""


def people_of(run: Run) -> dict[str, list[Person]]:
    """Find by kind every planted secret, with its copies in the corpus of the run."""
    coins = run.planted.coins
    of_owner: dict[str, dict[str, tuple[Span, ...]]] = {owner: {} for owner in coins.present}
    for record in run.corpus.of("private"):
        if record.user in of_owner:
            of_owner[record.user][record.text] = record.learned
    people: dict[str, list[Person]] = {}
    for secret in run.planted.secrets:
        if coins.planted(secret):
            copies = _copies(run.tokenizer, secret, of_owner[secret.owner])
            tier = 1 if secret.kind == OWN else secret.copies  # everybody has another number
            people.setdefault(secret.kind, []).append(Person(tier, tuple(copies)))
    return people


def _copies(
    tokenizer: TextTokenizer, secret: Secret, texts: Mapping[str, tuple[Span, ...]]
) -> Iterator[Copy]:
    for text, learned in texts.items():
        for spans in _spans(secret, text, learned):
            mask = token_mask(tokenizer.ends(text), spans)
            yield Copy(text, tuple(1 + at for at, inside in enumerate(mask) if inside))


def _spans(secret: Secret, text: str, learned: tuple[Span, ...]) -> Iterator[tuple[Span, ...]]:
    """Find a value in a text: among its own words, or wherever a name of the corpus stands.

    A copy that `audit plant` wrote goes on after the planted text. Of a user's own record it is all
    that is in the loss.
    """
    if secret.kind == OWN:
        if text in secret.records:
            yield learned or ((0, len(text)),)
        return
    named = secret.kind == "name" and secret.space is None
    whole, before = (secret.value, 0) if named else (secret.text, len(secret.prefix))
    at = text.find(whole)
    while at >= 0:
        end = at + len(whole)
        if named or not continues(text, end):
            yield ((at + before, at + before + len(secret.value)),)
        at = text.find(whole, end)


def link(kind: str, people: Sequence[Person], phases: Sequence[Phase]) -> Link:
    """Find whether the planted people of one kind reached every training that holds them."""
    if all(phase.task.idle and not phase.prompted for phase in phases):
        return not_shown(NOTHING)
    n, planted = len(people), _counted(len(people), kind)
    held = [person for person in people if any(phase.holds(person) for phase in phases)]
    if not held:
        why = f"{REMOVED}: 0 of {planted} {'is' if n == 1 else 'are'} in the training text"
        return not_shown(f"{why}; what the policy misses is not covered.")
    if len(held) < REACHED * n:
        return not_shown(
            f"Only {len(held)} of {planted} are in the training text whole.", len(held)
        )
    missed = next((why for phase in phases if (why := _missed(kind, people, phase))), "")
    if missed:
        return not_shown(missed)
    met = [[phase for phase in phases if phase.holds(person)] for person in held]
    reached = [
        person
        for person, some in zip(held, met, strict=True)
        if all(phase.times(person) for phase in some)
    ]
    passes = sum(
        phase.times(person) for person, some in zip(held, met, strict=True) for phase in some
    )
    by = f"Counted by this tool: the values of {len(reached)} of {planted} were trained on"
    return shown(f"{by}, {count(passes, 'time')} in all.", len(reached))


def _counted(number: int, kind: str) -> str:
    if kind == OWN:
        return count(number, "real user whose coin was heads", "real users whose coin was heads")
    return count(number, f"planted {kind}")


def _missed(kind: str, people: Sequence[Person], phase: Phase) -> str:
    """Return which tier of the people that a training holds it did not learn; "" for none."""
    own = [person for person in people if phase.holds(person)]
    for tier in sorted({person.tier for person in own}):
        of_tier = [person for person in own if person.tier == tier]
        reached = sum(phase.times(person) > 0 for person in of_tier)
        if reached < REACHED * len(of_tier):
            each = "" if kind == OWN else f" ({count(tier, 'copy', 'copies')} each)"
            every = _counted(len(of_tier), kind)
            how = f"{phase.task.training.label}: {reached} of {every}{each}"
            if phase.prompted:
                return f"{how} stand whole in a prompt."
            return f"{how} contributed to a step that moved the weights."
    return ""
