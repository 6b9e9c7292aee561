"""Contact of planted secrets with a model that was trained elsewhere and whose weights are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from audit.core.code import code_digest
from audit.core.digest import key_of
from audit.core.language_model import LanguageModel, OpenSession
from audit.core.predictor import Tokens
from audit.core.randomness import stream
from audit.core.release import ModelRelease
from audit.core.secret import OWN, Draw, Secret
from audit.findings.shows import not_shown
from audit.measure.bench import Bench
from audit.measure.releases import Audited
from audit.planting.beacons import Beacon
from audit.planting.manifest import Manifest
from audit.planting.sentences import sentences
from audit.results.measurement import Link
from audit.silence import form
from audit.silence.accounts import Account, Learnt, Ways, account, link
from audit.silence.behind import likeliest
from audit.silence.difference import Difference, difference
from audit.silence.drawn_words import beacons_of
from audit.silence.learnt import Gain
from audit.silence.surroundings import Surroundings, Values
from audit.statistics.fisher import combined_p_value

MOST = 3_999  # others that what was drawn is compared with: enough for three ways at .001 in all
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
            "contact 7",
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
    def _sentences(self) -> dict[str, Draw]:
        return sentences(self.manifest)

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
        sentence, stem = self._sentences.get(kind), self.manifest.stems.get(kind)

        def learnt(draw: Draw, before: str, *purpose: str) -> Learnt:
            return gain.learnt(draw, before, MOST, self._stream(*purpose))

        def of_beacons(some: Sequence[Beacon]) -> float:
            found = (learnt(one.draw, one.prefix, "beacon", kind, one.value) for one in some)
            return combined_p_value([one.p_value for one in found])

        tiers = beacons_of(self.bench.run).get(kind, {})
        return {
            "sentence": sentence and learnt(sentence, self._before(kind), "sentence", kind),
            "stem": stem and learnt(stem, secret.prefix, "stem", kind),
            "tiers": [[users, of_beacons(some)] for users, some in tiers.items()],
            "form": None if sentence is None else self._form(secret),
        }

    def _before(self, kind: str) -> str:
        """Return what stands before a sentence: the conversation up to it, or nothing."""
        whole = next(secret.prefix for secret in self._secrets if secret.kind == kind)
        return whole.removesuffix(self._sentences[kind].value)

    def _behind(self, gain: Gain, draws: np.random.Generator) -> list[Any] | None:
        """Find words behind which the model knows the sentence, or values, of a kind better."""
        coins = self.bench.run.planted.coins
        found = likeliest(
            Surroundings(gain.session, gain.base, draw, self._before(kind)).behind(
                Values.of(self._secrets, coins, kind), draws
            )
            for kind, draw in self._sentences.items()
        )
        return None if found is None else [*found]

    def _form(self, secret: Secret) -> form.Form | None:
        """Count how often the model writes a value after the drawn words; None: of no space."""
        if secret.space is None:
            return None
        session = OpenSession(self.model, self._stream("form", secret.kind))
        question = form.Question.of(session.tokenizer, secret.prefix, secret.space, secret.value)
        return form.written(session, question)
