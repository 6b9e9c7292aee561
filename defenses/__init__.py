"""Defenses, one a file: the file name is its name on the command line. `_files` are shared."""
