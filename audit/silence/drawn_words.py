"""The draws of a manifest by kind: words before planted values, beacons, text before both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from audit.core.predictor import Tokenizer
from audit.core.secret import Draw
from audit.plan.source import PlantedElsewhere
from audit.planting import sentences as planted
from audit.planting.beacons import Beacon
from audit.prepare.run import Run

ByTier = dict[int, list[Beacon]]  # by the number of users who wrote each, the largest first


@dataclass(frozen=True)
class Sentence:
    """The words before the values of a kind, which were drawn, and the text before them."""

    frame: str
    draw: Draw

    def prompt(self, tokenizer: Tokenizer, words: str) -> list[int]:
        """Encode other words in their place."""
        return [tokenizer.start, *tokenizer.encode(self.frame + words)]


def sentences(run: Run) -> dict[str, Sentence]:
    """Find by kind the words before all its values, where the manifest drew them."""
    source = run.plan.source
    if not isinstance(source, PlantedElsewhere):
        return {}
    frame = frame_of(run)
    drawn = planted.sentences(source.manifest)
    return {kind: Sentence(frame, draw) for kind, draw in drawn.items()}


def beacons_of(run: Run) -> dict[str, ByTier]:
    """Group the beacons of a manifest by kind, then by tier; empty where this run plants."""
    manifest = run.plan.source.record
    if manifest is None:
        return {}
    frame, kinds = frame_of(run), dict[str, ByTier]()
    for one in sorted(manifest.beacons, key=lambda beacon: -beacon.tier):
        whole = replace(one, prefix=frame + one.prefix)
        kinds.setdefault(one.kind, {}).setdefault(one.tier, []).append(whole)
    return kinds


def frame_of(run: Run) -> str:
    """Return what comes before every sentence, such as the beginning of a conversation."""
    frame = run.planted.corpus.frame
    return "" if frame is None else frame.before
