"""Language models: loading, training, and querying them."""
