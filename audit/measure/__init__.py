"""What is measured on a release: utility, and the evidence of every attack."""
