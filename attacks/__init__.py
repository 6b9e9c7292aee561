"""Attacks, one a file: the file name is the name on the command line. Sub-packages are shared."""
