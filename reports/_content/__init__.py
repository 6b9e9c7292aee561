"""What the pages of a report say, as plain data that html and pdf lay out."""
