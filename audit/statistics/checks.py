"""Checks of arguments that several methods share. Each raises ValueError."""

from __future__ import annotations


def check_confidence(confidence: float) -> None:
    """Refuse a confidence outside (0, 1)."""
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie strictly between 0 and 1; got {confidence}")


def check_delta(delta: float) -> None:
    """Refuse a δ outside [0, 1]."""
    if not 0.0 <= delta <= 1.0:
        raise ValueError(f"delta must lie between 0 and 1; got {delta}")


def check_hits(k: int, n: int) -> None:
    """Refuse k hits in n trials unless 0 <= k <= n."""
    if not 0 <= k <= n:
        raise ValueError(f"hits and trials must satisfy 0 <= k <= n; got k={k}, n={n}")


def check_guesses(m: int, r: int, v: int) -> None:
    """Refuse v right of r guesses over m coins unless 0 <= v <= r <= m."""
    if not 0 <= v <= r <= m:
        raise ValueError(
            f"coins, guesses and right guesses must satisfy 0 <= v <= r <= m; "
            f"got m={m}, r={r}, v={v}"
        )
