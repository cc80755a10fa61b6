"""TLS, SASL and access control lists: what a connection's peer must prove, and what it may do then.

Above transport, below the metadata and the API; the broker and the clients put the parts together.
"""
