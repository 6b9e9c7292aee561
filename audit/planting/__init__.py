"""Secrets that are planted: drawn, inserted, listed in a manifest, looked for in training data."""
