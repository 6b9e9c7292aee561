"""Defenses, one a file: the file name is its name on the command line. Sub-packages are shared."""
