"""API families: one module per family of requests, and the table that joins them."""
