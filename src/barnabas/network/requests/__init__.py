"""The way of a request from a connection to a handler, and its metrics."""
