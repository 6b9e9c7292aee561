"""One run from plan to report, and sweeps of many."""
