"""From settings to the plan that they ask for: corpus, model and manifest are found and read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.core.embedded import EMBEDDED_FOLDER
from audit.corpora import loading as corpora
from audit.models import loading
from audit.plan import elsewhere
from audit.plan.defaults import make_plan
from audit.plan.plan import Plan

DEFAULTS: Mapping[str, Any] = {"corpus": "helpdesk", "model": "embedded"}


def resolve(settings: Mapping[str, Any]) -> Plan:
    """The plan of a run. settings: as `audit.settings.gather` gives them. Raises UsageError."""
    asked = {"defense": (), "attack": (), **settings}
    if elsewhere.asked(asked):
        return elsewhere.make_plan(asked, EMBEDDED_FOLDER)
    asked = {**DEFAULTS, **asked}
    model = loading.describe(asked["model"], EMBEDDED_FOLDER)
    return make_plan(asked, corpora.load(asked["corpus"], EMBEDDED_FOLDER), model)
