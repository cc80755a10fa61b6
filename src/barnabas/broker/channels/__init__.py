"""Connections that clients and brokers open to the broker, and that it opens to others: logins, TLS, certificates."""
