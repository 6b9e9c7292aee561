"""Where tasks are trained: one place a file."""
