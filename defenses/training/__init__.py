"""Shared code of the trainings of several defenses: sampling, noise, partitions, texts, claims."""
