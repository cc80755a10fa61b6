"""Connections of clients: their limits, their states, and the requests that arrive on them."""
