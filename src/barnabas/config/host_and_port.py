"""A host and a port, as settings write them: `host:port`, `[::1]:9404`, `:9404` for every interface.

Pure functions; `HostAndPort` is the validator of such settings. Immutable.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from barnabas.config.config_key import ConfigValue

_ADDRESS: Final = re.compile(r"(?:\[(?P<v6>[0-9a-fA-F:.%\w]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>\d{1,5})")
_LAST_PORT: Final = 65535


class Address(NamedTuple):
    """An address to listen on or to connect to. host: empty for every interface. port: 0 for a free one."""

    host: str
    port: int

    @property
    def text(self) -> str:
        """The address as host:port, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def parse_host_and_port(text: str) -> Address:
    """Parse host:port. Raises ValueError: the text has another form, or the port is beyond 65535."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match["port"]) > _LAST_PORT:
        raise ValueError(f"{text!r} is not of the form host:port")
    return Address(match["v6"] or match["host"] or "", int(match["port"]))


class HostAndPort:
    """A host and a port, if there is a value."""

    def __call__(self, value: ConfigValue) -> str | None:
        """Return what is wrong with the value, or None."""
        if value is None:
            return None
        try:
            parse_host_and_port(str(value))
        except ValueError:
            return "Value must be host:port, with brackets around an IPv6 address"
        return None

    def __str__(self) -> str:
        return "host:port"
