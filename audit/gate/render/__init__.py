"""Writes the verdict of a gate for a terminal and for the summary page of a CI job."""
