"""The certificates that a client of a web server trusts: those of the system, or of a trust store.

Made with the settings that name the server; immutable, and shared by the threads that send requests.
"""

from __future__ import annotations

import ssl

from barnabas.security.tls.key_stores import load_trust_store
from barnabas.security.tls.tls_config import TlsConfig, TrustStoreConfig
from barnabas.security.tls.tls_contexts import client_context


class HttpsTrust:
    """A context for `https:`, which verifies the server's name too."""

    __slots__ = ("context",)

    def __init__(self, store: TrustStoreConfig | None = None) -> None:
        """store: None for the authorities of the system. Raises ConfigError: the store cannot be used."""
        # Never `ssl.create_default_context`, which checks certificates by other rules in each release of Python.
        if store is None:
            self.context = client_context(TlsConfig(), None, None)
        else:
            self.context = client_context(TlsConfig(truststore=store), None, load_trust_store(store))


def is_refused_certificate(reason: object) -> bool:
    """Return whether the reason of a failed request is the server's certificate: another attempt would fail, too."""
    return isinstance(reason, ssl.SSLCertVerificationError)
