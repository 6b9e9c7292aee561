"""Contact of planted secrets with a model that was trained elsewhere and whose weights are here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from audit.core.code import code_digest
from audit.core.digest import key_of
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.predictor import Tokenizer, Tokens
from audit.core.randomness import stream
from audit.core.release import ModelRelease
from audit.core.secret import OWN, Draw, Secret
from audit.findings.shows import not_shown
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.planting.beacons import Beacon
from audit.planting.manifest import Manifest
from audit.planting.sentences import sentences
from audit.prepare.run import Run
from audit.results.silence import Link
from audit.silence import form
from audit.silence.accounts import Account, Learnt, Ways, account, link
from audit.silence.beacons import OTHERS
from audit.silence.behind import likeliest
from audit.silence.difference import Difference, difference
from audit.silence.drawn_words import beacons_of
from audit.silence.learnt import Gain
from audit.silence.surroundings import Surroundings, Values
from audit.statistics.fisher import combined_p_value

EACH = 1_250  # others for each way that is tried: where none gains as much, p is below its level
_READ = 64  # planted texts on which the two models are compared
UNSEEN = (
    "other weights than these: another step, an average, a merge at another scale, or these in "
    "another precision, such as 4 bits",
    "what a trainer did to the planted text after the stated file was written: filters, and masks, "
    "cuts or another form of some values, are found in a file alone; of all values, where the "
    "model writes no such values; words around it, where they are usual or the model begins its "
    "texts with them; it is supposed to be used as given",
    "a tokenizer beside the weights that is not the one of the training, where both write values "
    "in the same tokens",
)  # what no check finds
_EQUAL = "The audited model answers exactly as its base, so no planted text reached its weights."


def contact(bench: Bench, one: Audited) -> dict[str, Link]:
    """Show by kind whether what was planted elsewhere reached the weights of a release."""
    run = bench.run
    manifest = run.plan.source.record
    if manifest is None or not isinstance(one.release, ModelRelease):
        raise ValueError(f"{one.label} is not a model that was trained elsewhere")
    looked = Look(bench, one, one.release.model, manifest)
    seen = bench.folder.stored(looked.stage, looked.look)
    there = {coverage.kind: coverage for coverage in run.coverage}
    accounts = {
        kind: account(manifest, kind, run.plan.source.stated, there.get(kind))
        for kind in looked.kinds
    }
    return links(seen, accounts)


def links(seen: Mapping[str, Any], accounts: Mapping[str, Account]) -> dict[str, Link]:
    """Judge by kind what was stored of a release."""
    apart = seen["difference"]
    if apart is not None and Difference(**apart).is_none:
        return {kind: not_shown(_EQUAL, apart["texts"]) for kind in accounts}
    return {
        kind: link(kind, Ways.stored({**seen["kinds"][kind], "behind": seen["behind"]}), known)
        for kind, known in accounts.items()
    }


@dataclass(frozen=True)
class Drawn:
    """Draws of a manifest for a kind: the words before values, what these begin with, beacons."""

    sentence: Draw | None
    stem: Draw | None
    tiers: Mapping[int, Sequence[Beacon]]

    @property
    def most(self) -> int:
        """Count the others at most that each is compared with: more where more ways are tried."""
        return EACH * sum(map(bool, (self.sentence, self.stem, self.tiers))) - 1

    def most_of(self, tier: Sequence[Beacon]) -> int:
        """Count those of a beacon: two that lead 999 have p = 1.5e-5 together."""
        return self.most if len(tier) == 1 else OTHERS

    def tokens(self, tokenizer: Tokenizer) -> int:
        """Count the tokens of what was drawn and of all others, if each is as long as it is."""
        texts = [(one, self.most) for one in (self.sentence, self.stem) if one]
        texts += [(one.draw, self.most_of(some)) for some in self.tiers.values() for one in some]
        return sum((1 + most) * len(tokenizer.encode(draw.value)) for draw, most in texts)


def drawn_of(run: Run, kinds: Iterable[str]) -> dict[str, Drawn]:
    """Collect by kind what a manifest drew; {} where this run plants."""
    manifest = run.plan.source.record
    if manifest is None:
        return {}
    words, tiers = sentences(manifest), beacons_of(run)
    return {k: Drawn(words.get(k), manifest.stems.get(k), tiers.get(k, {})) for k in kinds}


def tokens_compared(run: Run) -> int:
    """Count the tokens that a look at the one audited model scores at most, its base included."""
    drawn = drawn_of(run, dict.fromkeys(s.kind for s in run.planted.secrets if s.kind != OWN))
    scored = sum(one.tokens(run.tokenizer) for one in drawn.values())
    return scored * (1 + run.plan.source.base_known)


@dataclass(frozen=True)
class Look:
    """Tests what a manifest drew on a model and, where it is here, its base."""

    bench: Bench
    one: Audited
    model: LanguageModel
    manifest: Manifest

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(secret.kind for secret in self._secrets))

    @property
    def _secrets(self) -> tuple[Secret, ...]:
        """Planted secrets, in their conversations if they are in any."""
        return tuple(s for s in self.bench.run.planted.secrets if s.kind != OWN)

    @cached_property
    def stage(self) -> str:
        """The name of its stage, by all that determines it."""
        plan = self.bench.run.plan
        key = key_of(
            "contact 8",
            code_digest("audit.silence.weights", "audit.models.causal"),
            [*self.one.determined, *plan.source.model.values(), plan.source.base_known],
            [plan.model.sha256, plan.seed, plan.device, plan.threads, self.manifest.digest],
        )
        return f"contact-{key}"

    def look(self) -> dict[str, Any]:
        """Compare with the base, then test what was drawn of each kind."""
        base = self.one.public if self.bench.run.plan.source.base_known else None
        apart = None if base is None else difference(self.model, base, self._texts())
        seen = {"difference": None if apart is None else asdict(apart), "behind": None, "kinds": {}}
        if apart is not None and apart.is_none:
            return seen
        draws = self._stream("behind")
        beside = None if base is None else OpenSession(base, draws)
        gain = Gain(OpenSession(self.model, draws), beside)
        kinds = {kind: self._of_kind(kind, gain) for kind in self.kinds}
        return {**seen, "behind": self._behind(gain, draws), "kinds": kinds}

    @cached_property
    def _drawn(self) -> dict[str, Drawn]:
        return drawn_of(self.bench.run, self.kinds)

    def _stream(self, *purpose: str) -> np.random.Generator:
        return stream(self.bench.run.plan.seed, self.one.label, "contact", *purpose)

    def _texts(self) -> Sequence[Tokens]:
        tokenizer, coins = self.model.tokenizer, self.bench.run.planted.coins
        planted = [one.prefix + one.value for one in self._secrets if coins.planted(one)]
        some = planted[:: max(1, len(planted) // _READ)][:_READ]  # of every kind
        return [[tokenizer.start, *tokenizer.encode(text)] for text in some]

    def _of_kind(self, kind: str, gain: Gain) -> dict[str, Any]:
        """Test its sentence, its stem and its beacons, and see how often the model writes it."""
        secret = next(secret for secret in self._secrets if secret.kind == kind)
        drawn = self._drawn[kind]
        sentence, stem = drawn.sentence, drawn.stem

        def learnt(draw: Draw, before: str, most: int, *purpose: str) -> Learnt:
            return gain.learnt(draw, before, most, self._stream(*purpose))

        def of_beacons(some: Sequence[Beacon]) -> float:
            most = drawn.most_of(some)
            found = (learnt(one.draw, one.prefix, most, "beacon", kind, one.value) for one in some)
            return combined_p_value([one.p_value for one in found])

        words = sentence and learnt(sentence, self._before(kind), drawn.most, "sentence", kind)
        return {
            "sentence": words,
            "stem": stem and learnt(stem, secret.prefix, drawn.most, "stem", kind),
            "tiers": [[users, of_beacons(some)] for users, some in drawn.tiers.items()],
            "form": None if sentence is None else self._form(secret),
        }

    def _before(self, kind: str) -> str:
        """Return what stands before a sentence: the conversation up to it, or nothing."""
        whole = next(secret.prefix for secret in self._secrets if secret.kind == kind)
        sentence = self._drawn[kind].sentence
        return whole if sentence is None else whole.removesuffix(sentence.value)

    def _behind(self, gain: Gain, draws: np.random.Generator) -> list[Any] | None:
        """Find words behind which the model knows the sentence, or values, of a kind better."""
        coins = self.bench.run.planted.coins
        found = likeliest(
            Surroundings(gain.session, gain.base, draw, self._before(kind)).behind(
                Values.of(self._secrets, coins, kind), draws
            )
            for kind, drawn in self._drawn.items()
            if (draw := drawn.sentence) is not None
        )
        return None if found is None else [*found]

    def _form(self, secret: Secret) -> form.Form | None:
        """Count how often the model writes a value after the drawn words; None: of no space."""
        if secret.space is None:
            return None
        session = OpenSession(self.model, self._stream("form", secret.kind))
        question = form.Question.of(session.tokenizer, secret.prefix, secret.space, secret.value)
        return form.written(session, question)
