"""The annex for reviewers: what a run shows beside what published texts ask for, row by row."""
