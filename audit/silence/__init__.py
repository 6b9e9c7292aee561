"""What a release must have shown before "no leak found" is printed: one provider a file."""
