"""The papers' claims, each by one command: `python -m experiments M1 --scale small`."""
