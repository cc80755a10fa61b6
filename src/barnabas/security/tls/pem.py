"""PEM texts: their blocks, as Kafka finds them in files and in settings (KIP-651), in the form that OpenSSL reads.

Pure functions. A setting may have the text on one line, with spaces for line ends, which OpenSSL would not read.
Kafka: DefaultSslEngineFactory.PemParser.
"""

from __future__ import annotations

import re
import textwrap
from typing import Final, NamedTuple

_BLOCK: Final = re.compile(r"-+BEGIN\s+([A-Z0-9 ]*?(?:CERTIFICATE|PRIVATE\s+KEY))\s*-+(.*?)-+END\s+\1\s*-+", re.DOTALL)
_REVOCATION_LIST: Final = re.compile(r"-+BEGIN X509 CRL-+.*?-+END X509 CRL-+", re.DOTALL)
_HEADER: Final = re.compile(r"[A-Za-z0-9-]+: ")
_LINE: Final = 64


class PemText(NamedTuple):
    """The blocks of a text, each as OpenSSL reads it."""

    certificates: tuple[str, ...]
    private_keys: tuple[str, ...]

    @property
    def has_encrypted_key(self) -> bool:
        """Whether a password is needed to read a private key."""
        return any("ENCRYPTED" in key for key in self.private_keys)


def parse_pem(text: str) -> PemText:
    """Find the certificates and private keys of a text; what stands between them is ignored."""
    certificates: list[str] = []
    keys: list[str] = []
    for label, body in _BLOCK.findall(text):
        name = " ".join(label.split())
        # Headers (Proc-Type, DEK-Info of the old encrypted form) end with an empty line, so that form stays as it is.
        content = body.strip() if _HEADER.search(body) else textwrap.fill("".join(body.split()), _LINE)
        block = f"-----BEGIN {name}-----\n{content}\n-----END {name}-----\n"
        (certificates if name.endswith("CERTIFICATE") else keys).append(block)
    return PemText(tuple(certificates), tuple(keys))


def revocation_lists_of(text: str) -> tuple[str, ...]:
    """Find the revocation lists of a text, each as OpenSSL reads it; what stands between them is ignored."""
    return tuple(f"{block}\n" for block in _REVOCATION_LIST.findall(text))
