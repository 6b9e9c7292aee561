"""What every plugin owes, as checks that its author runs: ours are held to the same ones.

Each check takes one plugin, made with parameters of its author's choice, and raises AssertionError
with one sentence where it is broken. Defenses are tried on toy text with the embedded model, a few
steps of training long; attacks on a model that looks at the last character only.
"""

from __future__ import annotations

from audit.contract import attacks, defenses, plugin
from audit.core.attack import Attack
from audit.core.defense import Defense

DEFENSE_CHECKS = (*plugin.CHECKS, *defenses.CHECKS)
ATTACK_CHECKS = (*plugin.CHECKS, *attacks.CHECKS)


def check_defense(defense: Defense) -> None:
    """All checks of a defense, one after the other. Raises AssertionError at the first broken."""
    for check in DEFENSE_CHECKS:
        check(defense)


def check_attack(attack: Attack) -> None:
    """All checks of an attack, one after the other. Raises AssertionError at the first broken."""
    for check in ATTACK_CHECKS:
        check(attack)
