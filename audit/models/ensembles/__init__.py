"""Several models asked about the same text together."""
