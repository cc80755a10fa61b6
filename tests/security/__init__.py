"""Brokers with TLS, SASL and access control lists."""
