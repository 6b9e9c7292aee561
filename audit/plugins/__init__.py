"""Defenses, attacks and report formats by name: found, listed, built."""
