"""Contact of planted secrets with a model that was trained elsewhere and whose weights are here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

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
from audit.silence.accounts import Account, Tier, Ways, account, link
from audit.silence.behind import Behind, likeliest
from audit.silence.difference import Difference, difference
from audit.silence.planted_beacons import beacons_of
from audit.silence.sentences import Gain, Learnt, learnt
from audit.silence.surroundings import Surroundings, Values

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
    return {kind: link(kind, _ways(seen, kind), known) for kind, known in accounts.items()}


def _ways(seen: Mapping[str, Any], kind: str) -> Ways:
    sentence, stem = (seen[name].get(kind) for name in ("sentences", "stems"))
    return Ways(
        sentence=None if sentence is None else Learnt(**sentence),
        stem=None if stem is None else Learnt(**stem),
        tiers=[
            Tier(users, [Learnt(**one) for one in values])
            for users, values in seen["beacons"].get(kind, ())
        ],
        behind=None if seen["behind"] is None else Behind(*seen["behind"]),
        form=form.Form(*seen["forms"][kind]) if kind in seen["forms"] else None,
    )


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
            "contact 6",
            code_digest("audit.silence.weights", "audit.models.causal"),
            [*self.one.determined, *plan.source.model.values(), plan.source.base_known],
            [plan.model.sha256, plan.seed, plan.device, plan.threads, self.manifest.digest],
        )
        return f"contact-{key}"

    def look(self) -> dict[str, Any]:
        """Compare with the base, then test each sentence, stem and beacon."""
        base = self.one.public if self.bench.run.plan.source.base_known else None
        apart = None if base is None else difference(self.model, base, self._texts())
        if apart is not None and apart.is_none:
            nothing: dict[str, Any] = {"sentences": {}, "stems": {}, "beacons": {}, "behind": None}
            return {"difference": asdict(apart), **nothing, "forms": {}}
        gain = Gain(self.model, base)
        before = {kind: self._before(kind, draw) for kind, draw in self._sentences.items()}
        words = {secret.kind: secret.prefix for secret in self._secrets}
        return {
            "difference": None if apart is None else asdict(apart),
            "sentences": self._tested("sentence", self._sentences, before, gain),
            "stems": self._tested("stem", self.manifest.stems, words, gain),
            "beacons": {
                kind: [[users, self._values(some, gain)] for users, some in tiers.items()]
                for kind, tiers in beacons_of(self.bench.run).items()
            },
            "behind": self._behind(before, gain),
            "forms": self._forms(),
        }

    @cached_property
    def _sentences(self) -> dict[str, Draw]:
        return sentences(self.manifest)

    def _before(self, kind: str, draw: Draw) -> str:
        """Return what stands before a sentence: the conversation up to it, or nothing."""
        whole = next(secret.prefix for secret in self._secrets if secret.kind == kind)
        return whole.removesuffix(draw.value)

    def _texts(self) -> Sequence[Tokens]:
        tokenizer, coins = self.model.tokenizer, self.bench.run.planted.coins
        planted = [one.prefix + one.value for one in self._secrets if coins.planted(one)]
        some = planted[:: max(1, len(planted) // _READ)][:_READ]  # of every kind
        return [[tokenizer.start, *tokenizer.encode(text)] for text in some]

    def _tested(
        self, way: str, draws: Mapping[str, Draw], before: Mapping[str, str], gain: Gain
    ) -> dict[str, Any]:
        return {
            kind: asdict(self._learnt(draw, before[kind], gain, way, kind))
            for kind, draw in draws.items()
        }

    def _learnt(self, draw: Draw, before: str, gain: Gain, *purpose: str) -> Learnt:
        others = stream(self.bench.run.plan.seed, self.one.label, "contact", *purpose)
        return learnt(draw, before, gain, MOST, others)

    def _behind(self, before: Mapping[str, str], gain: Gain) -> list[Any] | None:
        """Find words behind which the model knows the sentence, or values, of a kind better."""
        draws = stream(self.bench.run.plan.seed, self.one.label, "contact", "behind")
        audited = OpenSession(gain.audited, draws)
        base = None if gain.base is None else OpenSession(gain.base, draws)
        coins = self.bench.run.planted.coins
        found = likeliest(
            Surroundings(audited, base, draw, before[kind]).behind(
                Values.of(self._secrets, coins, kind), draws
            )
            for kind, draw in self._sentences.items()
        )
        return None if found is None else [*found]

    def _forms(self) -> dict[str, form.Form]:
        """Find by kind how often the model writes a value after the drawn words."""
        draws = stream(self.bench.run.plan.seed, self.one.label, "contact", "forms")
        session = OpenSession(self.model, draws)
        of = {s.kind: s for s in self._secrets if s.kind in self._sentences}
        return {
            kind: form.written(
                session,
                form.Question.of(session.tokenizer, secret.prefix, secret.space, secret.value),
            )
            for kind, secret in of.items()
            if secret.space is not None
        }

    def _values(self, tier: Sequence[Beacon], gain: Gain) -> list[dict[str, Any]]:
        return [
            asdict(self._learnt(one.draw, one.prefix, gain, "beacon", one.kind, one.value))
            for one in tier
        ]
