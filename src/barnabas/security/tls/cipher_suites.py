"""Cipher suites: IANA's names, which Kafka's settings have, as the names of OpenSSL.

Pure. OpenSSL's names follow from IANA's by rules, so no table can be out of date.

    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256    ECDHE-RSA-AES128-GCM-SHA256
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256    ECDHE-RSA-AES128-SHA256
    TLS_RSA_WITH_AES_256_GCM_SHA384          AES256-GCM-SHA384

The suites of TLS 1.3 have one name only, without WITH.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

TLS_1_3_SUITES: Final = frozenset({"TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"})
_SUITE: Final = re.compile(r"(?:TLS|SSL)_(?P<exchange>[A-Z0-9_]+)_WITH_(?P<cipher>[A-Z0-9_]+)")


class CipherSuites(NamedTuple):
    """The suites of a setting. before_1_3: OpenSSL's names. of_1_3: the names that TLS 1.3 has."""

    before_1_3: tuple[str, ...]
    of_1_3: frozenset[str]


def cipher_suites_of(names: Sequence[str]) -> CipherSuites:
    """Sort the suites of a setting by version. Raises ValueError: a name is of another form than IANA's."""
    of_1_3 = frozenset(name for name in names if "_WITH_" not in name and name.startswith("TLS_"))
    return CipherSuites(tuple(_openssl_name(name) for name in names if name not in of_1_3), of_1_3)


def _openssl_name(name: str) -> str:
    match = _SUITE.fullmatch(name)
    if match is None:
        raise ValueError(f"{name} is no cipher suite's name, like TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    cipher = re.sub(r"^AES_(\d+)_", r"AES\1_", match["cipher"]).replace("_CBC_", "_")
    if cipher.startswith("CHACHA20_POLY1305"):
        cipher = "CHACHA20_POLY1305"
    exchange = match["exchange"]
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")
