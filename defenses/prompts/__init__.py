"""Private texts in the prompt of a public model: references, batches with accounts, copying."""
