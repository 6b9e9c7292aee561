"""From settings to a plan: everything that can change a result, resolved."""
