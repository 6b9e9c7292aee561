"""Rows about the attacks as such: which were run, and what their attackers read and know."""

from __future__ import annotations

from audit.results import words
from reports._content import verdicts, wording
from reports._content.releases import by_attack
from reports.exports._annex.document import Answer, Fact
from reports.exports._annex.measures import WORST, of, overall
from reports.exports._annex.rows import Asked
from reports.exports._annex.view import Evidence, One, View, name_of


def every_attack(view: View, asked: Asked) -> Evidence:
    """List every attack of this version, and those of other packages: run, or not."""
    found = [f for one in view.audited for f in one.release.findings]
    ran = (name_of(f.attack) for f in found)
    names = [*dict.fromkeys([*view.known, *view.planned, *ran])]
    facts = [
        Fact(term=wording.clip(wording.spelled(name), 60), text=_covered(view, name))
        for name in names
    ]
    if view.results.not_tested:
        facts.append(Fact(term="Not tested", text="; ".join(view.results.not_tested)))
    worst = overall([of(one.release.findings) for one in view.audited], view.partial)
    bad = worst in WORST
    answer = worst if bad else Answer.RECORDED if found else Answer.NOT_COVERED
    places = [*view.sections_of(f.attack for f in found), *view.sections("untested")]
    return Evidence(answer, facts, [], places)


def _covered(view: View, name: str) -> str:
    """Describe one attack, and what came of it."""
    known = view.known.get(name)
    what = f"{known.does}; {' and '.join(known.families) or 'no search for leaks'}" if known else (
        "an attack of another package"
    )  # fmt: skip
    each = [[f for f in one.release.findings if name_of(f.attack) == name] for one in view.audited]
    on = [findings for findings in each if findings]
    if not on:
        ran = name in view.planned
        return f"{what}. Not covered: {'planned, without a result' if ran else 'not run'}."
    found = [f for findings in on for f in findings]
    tally = verdicts.tally(found) or f"1 measure: {verdicts.leaked(found[0])}"
    return f"{what}. Run on {words.count(len(on), 'release')}; {tally}."


def threats(view: View, asked: Asked) -> Evidence:
    """List what the attackers read and know, and what each release gives away."""
    ran = dict.fromkeys(name for one in view.audited for name in by_attack(one.release))
    facts = [Fact(term=wording.clip(wording.spelled(n), 60), text=_attacker(view, n)) for n in ran]
    facts += [Fact(term=one.name, text=_given(one)) for one in view.shown if one.release.findings]
    answer = Answer.RECORDED if ran else Answer.NOT_COVERED
    return Evidence(answer, facts, [], view.sections_of(ran), "" if ran else "No attack was run.")


def _attacker(view: View, name: str) -> str:
    known = view.knows(name)
    found = [f for one in view.audited for f in by_attack(one.release).get(name, [])]
    reads = ", ".join(dict.fromkeys(f.access for f in found))
    return f"reads: {reads}; knows {known.knows if known else 'what its package says'}"


def _given(one: One) -> str:
    found = one.release.findings
    more = sorted({f.access for f in found if f.stronger_than_release})
    given = sorted({f.access for f in found if not f.stronger_than_release})
    text = f"attacked within what it gives: {', '.join(given) or 'nothing'}"
    return f"{text}; with more than it gives: {', '.join(more)}" if more else text
