"""Trains what a plan needs, as independent tasks."""
