"""The words of a report, each in a sentence."""

from __future__ import annotations

TERMS = [
    (
        "ε, in nats",
        "How much a unit of the data may change what is released. At ε = 0 nothing changes; at 1 "
        "any outcome becomes at most 2.7 times as likely, at 8 about 3,000 times.",
    ),
    (
        "per user, per part, per record",
        "What is hidden as a whole. Two ε of different units cannot be ranked.",
    ),
    (
        "planted, twins",
        "Secrets drawn alike. A fair coin decided for each user whether they were trained on; "
        "those that were not are twins.",
    ),
    (
        "undefended, public, unprotected",
        "Controls: a model trained without protection, one that never saw the private text, and a "
        "service's own models without its protection.",
    ),
    (
        "perplexity",
        "How surprised a model is by text it has not seen. Lower is more useful.",
    ),
    ("hit rate", "The share of generations that are exactly a planted value."),
    ("bits of exposure", "1 bit is chance; 20 bits: first among a million possible values."),
    ("AUC", "0.5 is chance; 1 (or 0): trained on and not trained on are told apart always."),
]
