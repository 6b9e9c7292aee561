"""A grid of settings over seeds, and what the seeds show together."""
