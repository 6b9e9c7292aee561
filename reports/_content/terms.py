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
        "δ",
        "By how much, in probability, an outcome may miss what ε promises: small against one over "
        "the number of users.",
    ),
    (
        "add or remove, replace, removed, emptied",
        "How data that must look alike differ: by one unit more or less, one exchanged for "
        "another, one part left out, one part without its text. Promises of two kinds cannot be "
        "ranked.",
    ),
    (
        "Rényi order α",
        "Another measure of change than ε with δ; the larger α, the stricter at the same ε.",
    ),
    (
        "worst case, data-dependent",
        "A worst-case ε holds for any data; a data-dependent one for these data and this run, and "
        "may itself tell something of them.",
    ),
    (
        "query, session, budget",
        "A service answers token by token, each a query, until what it may give away is spent. "
        "Then its session stops, and only the public model answers.",
    ),
    (
        "planted, twins",
        "Secrets drawn alike. A fair coin decided for each user whether they were trained on; "
        "those that were not are twins.",
    ),
    (
        "undefended, public, protection off",
        "Controls: a model trained without protection, one that never saw the private text, and a "
        "service's own models without its protection.",
    ),
    (
        "perplexity",
        "How surprised a model is by text it has not seen. Lower is more useful.",
    ),
    (
        "leaks wholly",
        "A person's value comes up, or scores above the values of everybody who was not trained "
        "on. A leak that is weaker in each person needs more people to be found.",
    ),
    ("hit rate", "The share of generations that are exactly a planted value."),
    (
        "n",
        "What was counted: generations for a hit rate, planted values for their probability or "
        "rank, people for an AUC, blocks of text for perplexity.",
    ),
    ("bits of exposure", "1 bit is chance; 20 bits: first among a million possible values."),
    ("AUC", "0.5 is chance; 1 (or 0): trained on and not trained on are told apart always."),
]
