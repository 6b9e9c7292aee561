"""Ensembles of models of disjoint parts that answer queries."""
