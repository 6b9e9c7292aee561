"""The evidence of contact and sight of a release, and the conditions of "no leak found"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from audit.core.terms import Shown
from audit.findings import reach
from audit.results.measurement import FindingResult, Measurement
from audit.results.silence import Link, Silence

STATED = "as stated by"  # in a contact that rests on what a user stated of the training
NO_REFERENCES = (
    "Run it again without --no-references: the undefended model, which shows what an attack can "
    "find, was left out."
)
NO_CONTROL = (
    "Not even the undefended model leaked by this measure, so finding nothing shows nothing; train "
    "longer, or plant more copies."
)
_UNKNOWN = "Nothing shows that the planted secrets reached the measured weights."
NOT_NEEDED = Link(state=Shown.NOT_NEEDED, by="a leak was found", n=0)


@dataclass(frozen=True)
class Shows:
    """The evidence that a release has beside its measurements.

    contact: by kind of secret, whether what was planted of it reached the measured weights. sight:
    by (attack, metric), whether that measure detects memorised text in this very model, or in one
    that was trained on the same text without protection. unseen: the reason where a measure is
    absent.
    """

    contact: Mapping[str, Link] = field(default_factory=dict)
    sight: Mapping[tuple[str, str], Link] = field(default_factory=dict)
    unseen: str = NO_CONTROL

    def beside(self, control: Mapping[tuple[str, str], Link] | None) -> Shows:
        """Add what the positive control of the run shows; None: the run has no references."""
        if control is None:
            general = self.unseen == NO_CONTROL  # a release's own reason says more
            return Shows(self.contact, self.sight, NO_REFERENCES if general else self.unseen)
        return Shows(self.contact, {**control, **self.sight}, self.unseen)

    def contact_of(self, measurement: Measurement) -> Link:
        """Find the contact of a measurement: of its kinds the first that was not shown."""
        if measurement.untrained:
            return not_shown(f"{measurement.untrained} What was not trained on cannot leak.")
        links = [self.contact.get(kind, not_shown(_UNKNOWN)) for kind in measurement.kinds]
        missing = [link for link in links if not link.shown]
        kept = [link for link in missing if not link.removed]
        if missing and not kept and len(missing) < len(links):
            return not_shown(f"Of one of its kinds: {missing[0].by}", missing[0].n)
        return next(iter(kept or missing or links), not_shown(_UNKNOWN))

    def sight_of(self, measurement: Measurement) -> Link:
        """Find the sight of a measurement."""
        name = (measurement.attack, measurement.metric)
        return self.sight.get(name, not_shown(self.unseen))


def not_shown(why: str, n: int = 0) -> Link:
    """Make a link that was not shown, with the reason as a sentence."""
    return Link(state=Shown.NOT_SHOWN, by=why, n=n)


def shown(by: str, n: int) -> Link:
    """Make a link that was shown, with what shows it and the number of observations."""
    return Link(state=Shown.SHOWN, by=by, n=n)


def silence_of(measurement: Measurement, shows: Shows, tests: int) -> Silence:
    """Collect the conditions under which finding no leak means something. tests: in the family."""
    return Silence(
        contact=shows.contact_of(measurement),
        sight=shows.sight_of(measurement),
        reach=reach.link(measurement, tests),
    )


def beside_leak(silence: Silence) -> Silence:
    """Return what stands beside a leak: its contact; sight and reach are not needed."""
    return Silence(contact=silence.contact, sight=NOT_NEEDED, reach=NOT_NEEDED)


def first_missing(silence: Silence) -> Link | None:
    """Return the first condition that was not shown; None where all were."""
    return next((link for link in silence.links if not link.shown), None)


def silence_over(findings: Sequence[FindingResult]) -> Silence | None:
    """Join the conditions of a release: each is shown where it is for every attack and kind.

    Of an attack and a kind the measure counts that has shown the most; of a leak, its contact. None
    where nothing was examined. Measures for insiders do not count.
    """
    own = [f for f in findings if not f.stronger_than_release and f.p_value is not None]
    leaks = [f.silence for f in own if f.leaked.detected]
    if leaks:
        return leaks[0]
    best: dict[tuple[str, tuple[str, ...]], Silence] = {}
    for finding in own:
        aim, silence = (finding.attack, finding.kinds), finding.silence
        if silence is not None and (aim not in best or _far(silence) > _far(best[aim])):
            best[aim] = silence
    each = list(best.values())
    return _joined(each) if each else None


def _far(silence: Silence) -> int:
    """Count the conditions that were shown before the first that was not."""
    return next((i for i, link in enumerate(silence.links) if not link.shown), 3)


def joined(findings: Sequence[FindingResult]) -> Silence | None:
    """Join the conditions of one measure over seeds: each is shown where every seed shows it.

    None where a seed leaks or was not examined: then nothing can be said of their silence.
    """
    each = [f.silence for f in findings if not f.leaked.detected and f.silence is not None]
    if len(each) < len(findings) or not each:
        return None
    return _joined(each)


def _joined(each: Sequence[Silence]) -> Silence:
    """Join each condition: the first that was not shown stands for it."""
    contact, sight, reached = (
        next((link for link in links if not link.shown), links[0])
        for links in zip(*(one.links for one in each), strict=True)
    )
    return Silence(contact=contact, sight=sight, reach=reached)


def stated_by(finding: FindingResult) -> Shows:
    """Return what a judged finding states that its release has shown for it."""
    silence = finding.silence
    if silence is None:
        return Shows()
    contact = dict.fromkeys(finding.kinds, silence.contact)
    return Shows(contact, {(finding.attack, finding.metric): silence.sight})
