"""The rules of report.sarif: what each asks, what helps, and where others have classified it.

Taxa: MITRE ATLAS (https://atlas.mitre.org), OWASP Top 10 for LLM applications, 2025
(https://genai.owasp.org), and CWE (https://cwe.mitre.org).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Taxonomy:
    """A classification by others. taxa: identifier, name and page of each class that is used."""

    name: str
    organization: str
    about: str
    taxa: tuple[tuple[str, str, str], ...]


TAXONOMIES = (
    Taxonomy(
        "MITRE ATLAS",
        "MITRE",
        "Adversarial Threat Landscape for Artificial-Intelligence Systems",
        (
            (
                "AML.T0024.000",
                "Infer Training Data Membership",
                "https://atlas.mitre.org/techniques/AML.T0024.000",
            ),
            ("AML.T0057", "LLM Data Leakage", "https://atlas.mitre.org/techniques/AML.T0057"),
        ),
    ),
    Taxonomy(
        "OWASP Top 10 for LLM Applications 2025",
        "OWASP",
        "The ten most critical risks of applications of large language models",
        (
            (
                "LLM02:2025",
                "Sensitive Information Disclosure",
                "https://genai.owasp.org/llmrisk/llm022025-sensitive-information-disclosure/",
            ),
        ),
    ),
    Taxonomy(
        "CWE",
        "MITRE",
        "Common Weakness Enumeration",
        (
            (
                "CWE-200",
                "Exposure of Sensitive Information to an Unauthorized Actor",
                "https://cwe.mitre.org/data/definitions/200.html",
            ),
            (
                "CWE-359",
                "Exposure of Private Personal Information to an Unauthorized Actor",
                "https://cwe.mitre.org/data/definitions/359.html",
            ),
        ),
    ),
)

_CWE = ("external/cwe/cwe-200", "external/cwe/cwe-359")  # as code scanning on GitHub groups them


@dataclass(frozen=True)
class Rule:
    """A kind of check. discloses: whether its failure means that private text is disclosed."""

    id: str
    title: str
    help: str
    discloses: bool = False


RULES = (
    Rule(
        "leak",
        "An attack found a leak that nothing allows",
        "Planted secrets came out of the release, or its answers tell which records were trained "
        "on, more often than chance explains. Use a defense, or a stronger setting of it. Where "
        "the leak is acceptable, write a limit on its metric, or accept it in the baseline.",
        True,
    ),
    Rule(
        "empirical",
        "An attack refutes the claimed ε",
        "What was measured cannot happen under the claim, but for the stated error. The accounting "
        "or the implementation is wrong: do not publish the claim. `audit check` examines DP-SGD "
        "and DP-FTRL.",
        True,
    ),
    Rule(
        "limit",
        "A metric is above its limit",
        "A bound of the metric is above the `max` of its [[limit]]. Use a stronger defense, or run "
        "more trials where the check is inconclusive.",
        True,
    ),
    Rule(
        "claim",
        "A claimed ε is too large, or of another unit, relation or basis",
        "The claim of the release does not satisfy a [[claim]] of the policy. Train with the ε, "
        "unit and relation that it names; a claim of another kind is no substitute.",
    ),
    Rule(
        "utility",
        "Protection costs more utility than is allowed",
        "The ratio of a measure to that of another release passes its [[utility]] limit. Weaken "
        "the defense, choose another, or allow the cost.",
    ),
    Rule(
        "plan",
        "Corpus, secrets or plan differ from the baseline",
        "The run cannot be compared with the baseline. Where the change is intended, write a new "
        "one with `audit baseline update DIR --reason TEXT`.",
    ),
    Rule(
        "regression",
        "A metric is worse than in the baseline, or missing",
        "More leaks than in the run that was accepted, by a test that is adjusted for all metrics; "
        "or the metric was not measured. Look for the change that caused it.",
        True,
    ),
)


def rule(one: Rule) -> dict[str, Any]:
    """Format a rule with its help and what it is related to."""
    tags = ["privacy", *(("security", *_CWE) if one.discloses else ())]
    written = {
        "id": one.id,
        "shortDescription": {"text": one.title},
        "help": {"text": one.help, "markdown": one.help},
        "properties": {"tags": tags},
    }
    return {**written, "relationships": _relationships()} if one.discloses else written


def _relationships() -> list[dict[str, Any]]:
    return [
        {"target": {"id": key, "toolComponent": _reference(place)}, "kinds": ["relevant"]}
        for place, taxonomy in enumerate(TAXONOMIES)
        for key, _, _ in taxonomy.taxa
    ]


def supported() -> list[dict[str, Any]]:
    """List references to all taxonomies."""
    return [_reference(place) for place in range(len(TAXONOMIES))]


def _reference(place: int) -> dict[str, Any]:
    return {"name": TAXONOMIES[place].name, "index": place}


def taxonomies() -> list[dict[str, Any]]:
    """Format all taxonomies with the taxa that are used."""
    return [
        {
            "name": one.name,
            "organization": one.organization,
            "shortDescription": {"text": one.about},
            "taxa": [
                {"id": key, "name": name, "shortDescription": {"text": name}, "helpUri": page}
                for key, name, page in one.taxa
            ],
        }
        for one in TAXONOMIES
    ]
