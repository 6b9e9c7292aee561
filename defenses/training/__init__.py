"""What the trainings of several defenses share: sampling, noise, partitions, texts, claims."""
