"""Names of users and clients as they appear in paths of the store and in names of metrics: percent-encoded.

Called by the quota managers and by `metadata.client_quotas`, on any thread; pure functions.

Kafka: org.apache.kafka.common.utils.Sanitizer.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_plus

DEFAULT_NAME: Final = "<default>"
"""The name for every client without an entry of its own; no sanitized name equals it."""

_is_safe: Final = re.compile(r"[a-zA-Z0-9._-]*").fullmatch


def sanitize(name: str) -> str:
    """Percent-encode all but letters, digits, dot, hyphen and underscore."""
    # The usual name needs no encoding. `quote` leaves the tilde alone, java.net.URLEncoder does not.
    return name if _is_safe(name) else quote(name, safe="").replace("~", "%7E")


def desanitize(name: str) -> str:
    """Return the name behind a sanitized one."""
    return unquote_plus(name)
