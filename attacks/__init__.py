"""Attacks, one a file: the file name is the name on the command line. `_files` are shared."""
