"""An address to listen on, as settings write it: `host:port`, `[::1]:9404`, `:9404` for every interface.

Pure functions; `HostAndPort` is the validator of such settings. Immutable.
"""

from __future__ import annotations

import re
from typing import Final

from barnabas.config.config_key import ConfigValue

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})")
_LAST_PORT: Final = 65535


def parse_host_and_port(text: str) -> tuple[str, int]:
    """Host (empty: every interface) and port (0: a free one). Raises ValueError."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ValueError(f"{text!r} is no host:port")
    return match["v6"] or match["host"] or "", int(match["port"])


class HostAndPort:
    """Validator: see `config_key.Validator`. No value is fine."""

    def __call__(self, value: ConfigValue) -> str | None:
        """What is wrong with the value, or None."""
        if value is None:
            return None
        try:
            parse_host_and_port(str(value))
        except ValueError:
            return "Value must be host:port, with brackets around an IPv6 address"
        return None

    def __str__(self) -> str:
        return "host:port"
