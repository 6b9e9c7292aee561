"""The search of all values that a secret could have had, and the ranks that it gives."""
