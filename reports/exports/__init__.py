"""Report formats for the tools of others, and MLflow: named and found like those of `reports/`."""
