"""A search page and a REST API over an index."""
