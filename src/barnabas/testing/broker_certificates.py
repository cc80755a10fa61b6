"""The certificates of a broker of the test kit: made before its first start, in a directory beside its data.

Called by BrokerProcess, on the caller's thread. Needs the extra `tls`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.security.tls.development_certificates import DevelopmentCertificates

_KINDS: Final = ("ssl",)


def made_for(data_dir: str, security: str) -> DevelopmentCertificates:
    """Return the certificates beside a data directory, which are made if they are not there.

    Raises ValueError for a kind of security that there is not, CertificatesMissing without the extra `tls`.
    """
    if security not in _KINDS:
        raise ValueError(f"security={security!r}: known are 'plaintext', {', '.join(map(repr, _KINDS))}")
    from barnabas.security.tls.development_certificates import (  # noqa: PLC0415 - most test runs never need them
        DevelopmentCertificates,
        make_certificates,
    )

    made = DevelopmentCertificates(Path(data_dir.rstrip(os.sep) + "-certificates").absolute())
    return made if made.client.exists() else make_certificates(made.directory)
