"""The contract of plugins, as checks that their authors run; the project's own pass the same ones.

Each check takes one plugin, made with parameters of the author's choice, and raises AssertionError
with one sentence if the plugin breaks it. Defenses are tried on toy text with the embedded model
and a few training steps, attacks on a model that looks at the last character only.
"""

from __future__ import annotations

from audit.contract import attacks, defenses, plugin
from audit.core.attack import Attack
from audit.core.defense import Defense

DEFENSE_CHECKS = (*plugin.CHECKS, *defenses.CHECKS)
ATTACK_CHECKS = (*plugin.CHECKS, *attacks.CHECKS)


def check_defense(defense: Defense) -> None:
    """Run all checks of a defense; raise AssertionError at the first that fails."""
    for check in DEFENSE_CHECKS:
        check(defense)


def check_attack(attack: Attack) -> None:
    """Run all checks of an attack; raise AssertionError at the first that fails."""
    for check in ATTACK_CHECKS:
        check(attack)
