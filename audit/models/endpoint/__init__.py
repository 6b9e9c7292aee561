"""A model behind a URL: requests, their wire format, what the server can do."""
