"""Rows that are answered by what the run has on record."""

from __future__ import annotations

from collections.abc import Sequence

from audit.results import words
from audit.results.schema import ReleaseResult
from reports._content import detail, wording
from reports.exports._annex.document import Answer, Fact, Place
from reports.exports._annex.rows import Asked
from reports.exports._annex.view import Evidence, View

_DRAWS = ("noise", "source", "sampling", "beta")  # parameters that say how was drawn
_RELEASED = {
    "model": "a model, all of it",
    "predictions": "answers to queries",
    "text": "texts, written once",
}


def nothing(view: View, asked: Asked) -> Evidence:
    """Answer nothing: a run cannot show it."""
    return Evidence(Answer.NOT_COVERED)


def _recorded(facts: Sequence[Fact], places: Sequence[Place], why: str) -> Evidence:
    answer = Answer.RECORDED if facts else Answer.NOT_COVERED
    return Evidence(answer, list(facts), [], list(places), "" if facts else why)


def release(view: View, asked: Asked) -> Evidence:
    """List what each release gives away, and how often it answers."""
    facts = [Fact(term=one.name, text=_released(one.release)) for one in view.shown]
    return _recorded(facts, view.releases_shown(), "No release was audited.")


def _released(released: ReleaseResult) -> str:
    if "served_sha256" in released.parameters:  # only a server tells this; a claim may be of more
        return "answers of a server, as far as it was asked; the model behind it was not seen"
    kind = released.guarantee.release
    text = _RELEASED.get(kind, wording.spelled(kind))
    budgets = [s.budget for s in released.sessions if s.budget is not None]
    return f"{text}; a session answers at most {words.integer(max(budgets))}" if budgets else text


def training(view: View, asked: Asked) -> Evidence:
    """Describe the corpus, the models and the training."""
    corpus = view.results.corpus
    repeats = _repeats(view)
    sizes = (
        f"{words.integer(corpus.records)} records of {words.integer(corpus.users)} users, "
        f"{'near-duplicates not counted' if repeats is None else f'{repeats} near-duplicates'}; "
        f"{words.integer(corpus.trained_users)} users trained on"
    )
    facts = [Fact(term=wording.clip(corpus.name, 60), text=sizes)]
    for term, key in (("Starts from", "model"), ("Audited as it is", "finished")):
        model = view.results.plan.get(key)
        if isinstance(model, dict):
            facts.append(Fact(term=term, text=str(model.get("name", "unknown"))))
    if lora := view.results.plan.get("lora"):
        facts.append(Fact(term="Trains adapters", text=f"LoRA, {wording.setting(lora)}"))
    facts += [
        Fact(
            term=one.name,
            text=f"{_trained(view, one.release)}; "
            f"{wording.clip(wording.setting(one.release.parameters), 300)}",
        )
        for one in view.shown
    ]
    return _recorded(facts, view.sections("tested", "cost"), "")


def _repeats(view: View) -> str | None:
    """Return the number of near-duplicates; None where the corpus was not here to count them."""
    corpus = view.results.corpus
    absent = view.elsewhere and corpus.private_token_share is None
    return None if absent and not corpus.near_duplicates else words.integer(corpus.near_duplicates)


def _trained(view: View, release: ReleaseResult) -> str:
    tokens = release.cost.train_tokens
    if view.elsewhere and not tokens:
        return "trained elsewhere, on what is not on record"
    return f"{words.integer(tokens)} tokens trained on"


def tests(view: View, asked: Asked) -> Evidence:
    """Describe how much was tested, on how many people, and when."""
    corpus = view.results.corpus
    found = [finding for one in view.audited for finding in one.release.findings]
    measured = sum(finding.value is not None for finding in found)
    seeds = sorted({release.seed for release in view.results.releases})
    references = sum(release.reference for release in view.releases)
    date = view.results.environment.get("date", "not on record")
    facts = [
        Fact(term="Measures", text=f"{measured} of {words.count(len(found), 'measure')} were made"),
        Fact(
            term="Users",
            text=f"a fair coin decided for {words.integer(corpus.planted_users)}: "
            f"{words.integer(corpus.planted_users - corpus.twins)} planted, "
            f"{words.integer(corpus.twins)} twins",
        ),
        Fact(term="Controls", text=f"{words.count(references, 'reference')} beside the twins"),
        Fact(term="Seeds", text=", ".join(map(str, seeds[:20])) or "none"),
        Fact(term="Date", text=f"{wording.setting(date)}; the run is {view.results.status}"),
    ]
    answer = Answer.RECORDED if found else Answer.NOT_COVERED
    return Evidence(answer, facts, [], view.sections("tested", "untested"))


def documents(view: View, asked: Asked) -> Evidence:
    """List what documents the run, and how it is made again."""
    results = view.results
    facts = [
        Fact(term="Figures", text="results.json, report.html, report.pdf, findings.csv"),
        Fact(term="Plan", text=f"hash {results.plan.get('hash', 'unknown')}"),
        Fact(term="Made again by", text=results.again),
        Fact(term="Checked by", text="audit verify, with evidence.json and SHA256SUMS"),
    ]
    places = view.sections("promised", "untested", "again", "warnings")
    return _recorded(facts, places, "")


def composition(view: View, asked: Asked) -> Evidence:
    """Describe what one session spent, and that releases and sessions add up."""
    facts = [
        Fact(term=one.name, text=text) for one in view.shown if (text := detail.spent(one.release))
    ]
    count = words.count(len(view.audited), "audited release")
    if len(view.audited) > 1:
        text = f"{count} of one corpus: released together, ε of one unit and relation add up"
        facts.append(Fact(term="Releases", text=text))
    places = [*view.sections("warnings"), *view.releases_shown()]
    return _recorded(facts, places, f"{count}, without a ledger: there is nothing to add up.")


def queries(view: View, asked: Asked) -> Evidence:
    """List the budget of each service, and where it ended."""
    facts = []
    for one in view.shown:
        limited = [s for s in one.release.sessions if s.budget is not None]
        if limited:
            most = max(s.budget or 0 for s in limited)
            early = [s.answered for s in limited if s.stopped_at is not None]
            text = f"a session answers at most {words.integer(most)} queries"
            text += f"; its ε ended the shortest after {words.integer(min(early))}" if early else ""
            facts.append(Fact(term=one.name, text=text))
    return _recorded(facts, view.releases_shown(), "No release answers queries under a budget.")


def randomness(view: View, asked: Asked) -> Evidence:
    """List the settings by which noise and samples were drawn."""
    facts = []
    for one in view.shown:
        drawn = {k: v for k, v in one.release.parameters.items() if k in _DRAWS}
        if drawn:
            facts.append(Fact(term=one.name, text=wording.setting(drawn)))
    return _recorded(facts, view.releases_shown(), "No release has such a setting.")


def unstructured(view: View, asked: Asked) -> Evidence:
    """Describe whose records are taken as whose."""
    corpus = view.results.corpus
    repeats = _repeats(view)
    same = f"; {repeats} repeat another, so several users may say the same" if repeats else ""
    text = (
        f"each of {words.integer(corpus.records)} records belongs to one of "
        f"{words.integer(corpus.users)} users{same}"
    )
    fact = Fact(term=wording.clip(corpus.name, 60), text=text)
    return _recorded([fact], view.sections("tested"), "")
