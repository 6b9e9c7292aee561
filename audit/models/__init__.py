"""Language models: loading, training, and querying them."""

# where an earlier version's module is found, with a warning, for one version
__path__ += [f"{place}/../_moved/models" for place in __path__]
