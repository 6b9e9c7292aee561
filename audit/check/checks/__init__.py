"""The checks, one family a file: functions of observed runs that return outcomes."""
