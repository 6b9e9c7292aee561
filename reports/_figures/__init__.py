"""The figures of a report, one a file, drawn with matplotlib as SVG."""
