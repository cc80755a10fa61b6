"""RawClient over TLS: one connection to an SSL listener of a broker."""

from __future__ import annotations

import ssl

from tests.support.barnabas_process import BarnabasProcess
from tests.support.raw_client import RawClient


class TlsRawClient(RawClient):
    """A connection that has done its handshake. Raises ssl.SSLError where the peers do not agree."""

    def __init__(
        self, server: BarnabasProcess, listener: str, context: ssl.SSLContext, session: ssl.SSLSession | None = None
    ) -> None:
        """session: an earlier one, which the client offers to resume."""
        super().__init__(server, address=(server.host, server.ports[listener]))
        try:
            self.socket: ssl.SSLSocket = context.wrap_socket(self.socket, server_hostname="localhost", session=session)
        except BaseException:
            self.socket.close()
            raise
