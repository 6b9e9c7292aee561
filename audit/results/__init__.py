"""results.json: its schema, its numbers and words, and the folder it lies in."""
