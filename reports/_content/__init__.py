"""Content of a report's pages, as plain data that html and pdf lay out."""
