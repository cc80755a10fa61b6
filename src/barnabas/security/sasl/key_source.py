"""The document behind a URL: `https:`, `http:` or `file:`.

Called by threads that may wait, for the keys of OAUTHBEARER. No state, so no lock. Kafka: HttpsJwks (of jose4j).
"""

from __future__ import annotations

import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Final

from barnabas.security.tls.https_trust import HttpsTrust

MOST_BYTES: Final = 1 << 20
SILENCE_SECONDS: Final = 10
MOST_SECONDS: Final = 30
_PIECE_BYTES: Final = 1 << 16


def is_remote(url: str) -> bool:
    """Return whether the document of a URL comes over the network, which may take as long as `MOST_SECONDS`."""
    return urllib.parse.urlsplit(url).scheme in ("http", "https")


def fetch_document(url: str) -> bytes:
    """Return the document of a URL, of at most 1 MiB.

    Raises OSError: the document cannot be read. Raises ValueError: it is too large, or the URL is not understood.
    """
    parts = urllib.parse.urlsplit(url)
    if parts.scheme == "file":
        document = Path(urllib.request.url2pathname(parts.path)).read_bytes()
    elif is_remote(url):
        document = _download(url)
    else:
        raise ValueError("a URL begins with https:, http: or file:")
    if len(document) > MOST_BYTES:
        raise ValueError(f"the document is larger than {MOST_BYTES} bytes")
    return document


def _download(url: str) -> bytes:
    """Return at most one byte more than is allowed. Raises OSError."""
    opener = urllib.request.OpenerDirector()
    # No handler of file: and ftp:, to which a server could redirect.
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=HttpsTrust().context),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    ends_at = time.monotonic() + MOST_SECONDS
    document = bytearray()
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310 - fetch_document checks
    try:
        opened = opener.open(request, None, SILENCE_SECONDS)
    except urllib.error.HTTPError:
        raise
    except urllib.error.URLError as error:
        # Its own text is "<urlopen error [Errno 111] Connection refused>".
        reason = error.reason.strerror if isinstance(error.reason, OSError) else None
        host = urllib.parse.urlsplit(url).netloc.rpartition("@")[2]
        raise OSError(f"no connection to {host}: {reason or error.reason}") from error
    with opened as answer:
        while piece := answer.read1(min(_PIECE_BYTES, MOST_BYTES + 1 - len(document))):
            document += piece
            if time.monotonic() > ends_at:
                raise TimeoutError(f"the document takes longer than {MOST_SECONDS} seconds")
    return bytes(document)
