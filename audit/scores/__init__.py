"""The statistics of a run for people who have their own trainer and attack: scores and coins."""
