"""The mathematics of ensembles: answers, what a query costs, and bounds on that cost."""
