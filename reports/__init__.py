"""Report formats, one a file: the file name is the word after `--format`. `_files` are shared."""
