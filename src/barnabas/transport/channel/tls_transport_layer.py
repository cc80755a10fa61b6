"""The TLS transport of a channel, for both sides: what the peer sends is decrypted, what leaves is encrypted.

Owned by the thread of the channel's Selector; no lock. All connections of a listener or client
share the context. Kafka: SslTransportLayer.

OpenSSL never touches the socket: it reads and writes two buffers in memory, and this class moves the bytes between them
and the socket, 64 KiB a system call. (Measured on loopback, CPU for 1 MB: 0.49 ms to receive and 0.56 ms to send; with
an `ssl.SSLSocket`, which makes two receives or one send for every 16 KiB, 0.66 and 0.67 ms.) A request of one record
and its answer are seven calls: receive, put, read; write, take, send, and one look whether there is more. OpenSSL is
not asked where it has nothing: each exception that says so costs 2 us.

Nothing above notices the difference to a socket. That takes two rules, since readiness is edge-triggered:

- **A short receive means that nothing is left**, neither in the socket nor decrypted in a buffer. So a receive goes on
  until the caller's buffer is full or the socket is empty. A full receive leaves the channel among the readable ones.
- **A short send means that the socket is full.** TLS sends records, and a record whose bytes did not all leave can
  neither be taken back nor changed. So bytes are encrypted in slices of 64 KiB, and a slice counts as sent once its
  last encrypted byte has left. The caller offers the same bytes again, and the next send skips those that were
  encrypted before:

      send(100 KB)   slice 1 leaves whole; of slice 2 (36 KB) the socket takes 10 KB: returns 64 KB
      send(36 KB)    the other 26 KB of slice 2 leave as they were encrypted: returns 36 KB
"""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from errno import ECONNRESET
from typing import Any, Final

from barnabas.transport.channel.authenticator import AuthenticationFailed
from barnabas.transport.channel.frame_reader import InvalidReceive
from barnabas.transport.channel.transport_layer import StreamSocket

SLICE_BYTES: Final = 64 * 1024
"""How many bytes are encrypted for one send: a socket that takes nothing costs this much memory, once a channel."""
RECEIVE_BYTES: Final = 64 * 1024 + 512
"""How many encrypted bytes are received at once: four full records."""
_RECORD_BYTES: Final = 16 * 1024  # the plaintext of a record has at most so many
_SMALL_READ_BYTES: Final = 2048  # the result of a read has this size before it is cut: memory for a small request


class TlsTransportLayer:
    """A TLS connection over a connected socket. `ready` once the handshake is over and its last bytes have left."""

    __slots__ = (
        "_claimed",
        "_ended",
        "_incoming",
        "_may_be_refused",
        "_outgoing",
        "_socket",
        "_tls",
        "_unsent",
        "ready",
    )

    def __init__(
        self,
        stream_socket: StreamSocket,
        context: ssl.SSLContext,
        *,
        server_side: bool,
        server_hostname: str | None = None,
    ) -> None:
        """server_hostname: the server's name as the client dials it, for SNI and the check of its certificate.

        Raises ValueError when the context checks host names and there is none.
        """
        self._socket = stream_socket
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming, self._outgoing, server_side=server_side, server_hostname=server_hostname
        )
        self.ready = False
        self._unsent = memoryview(b"")  # encrypted bytes for which the socket had no room
        self._claimed = 0  # the bytes of the slice whose end is `_unsent`: sent when `_unsent` is
        self._ended = False
        self._may_be_refused = not server_side
        """Whether the server has not answered yet: in TLS 1.3 it checks the client's certificate after the client's
        handshake is over (Kafka: SslTransportLayer.State.POST_HANDSHAKE)."""

    # -- the handshake

    def handshake(self) -> None:
        """Go on with the handshake as far as possible without waiting.

        Raises AuthenticationFailed when the peers do not agree, OSError when the connection is gone.
        """
        try:
            self._shake_hands()
        except ssl.SSLError as error:
            with suppress(OSError):
                self._flush()  # the alert that tells the peer why
            raise AuthenticationFailed(f"SSL handshake failed: {reason_of(error)}") from error

    def _shake_hands(self) -> None:
        is_over = False
        while True:
            try:
                self._tls.do_handshake()
                is_over = True
            except ssl.SSLWantReadError:
                pass
            # A flush that blocks is no error here: the socket's next event calls again.
            try:
                self._flush()
            except BlockingIOError:
                return
            if is_over:
                self.ready = True
                return
            try:
                if not self._receive():
                    raise ConnectionResetError(ECONNRESET, "The peer closed the connection during the TLS handshake")
            except BlockingIOError:
                return

    def finish_connect(self) -> None:
        """Take the outcome of the connect. Raises OSError when the connect has failed."""
        error = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            raise OSError(error, os.strerror(error))

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's verified certificate (DER); None if the peer has sent none."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def cipher_suite(self) -> tuple[str, str]:
        """The cipher suite and the version of TLS that the peers agreed on, by OpenSSL's names; empty before that."""
        cipher = self._tls.cipher()
        return ("", "") if cipher is None else (cipher[0], self._tls.version() or "")

    # -- receiving

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        """Receive up to `bufsize` decrypted bytes; an empty result means that the peer has finished.

        Raises BlockingIOError when there are none yet, OSError when the connection is gone or a record is forged,
        InvalidReceive when the peer asks for a new handshake, AuthenticationFailed when the server refuses this client.
        """
        tls, incoming = self._tls, self._incoming
        pieces: list[bytes] = []
        missing = bufsize
        is_empty = False
        while missing > 0:
            # OpenSSL is asked only where it has something: its exception costs as much as a small request.
            waiting = incoming.pending or tls.pending()
            if waiting or incoming.eof:
                try:
                    piece = tls.read(min(missing, max(waiting, _SMALL_READ_BYTES), _RECORD_BYTES))
                except ssl.SSLWantReadError:
                    self._refuse_renegotiation()
                except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                    self._ended = True
                    break
                except ssl.SSLError as error:
                    self._check_refusal(error)
                    raise
                else:
                    if not piece:
                        self._ended = True
                        break
                    pieces.append(piece)
                    missing -= len(piece)
                    continue
            if is_empty:
                break
            is_empty = self._receive_if_any()
        if not pieces and not self._ended:
            raise BlockingIOError
        self._may_be_refused = False
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0, /) -> int:
        """Receive decrypted bytes into `buffer`; 0 means that the peer has finished. Raises as `recv` does."""
        tls, incoming = self._tls, self._incoming
        is_empty = False
        filled = 0
        with memoryview(buffer) as view:
            wanted = nbytes or len(view)
            while filled < wanted:
                if incoming.pending or tls.pending() or incoming.eof:
                    try:
                        with view[filled:wanted] as gap:
                            count = int(tls.read(wanted - filled, gap))
                    except ssl.SSLWantReadError:
                        self._refuse_renegotiation()
                    except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                        self._ended = True
                        break
                    except ssl.SSLError as error:
                        self._check_refusal(error)
                        raise
                    else:
                        if not count:
                            self._ended = True
                            break
                        filled += count
                        continue
                if is_empty:
                    break
                is_empty = self._receive_if_any()
        if not filled and not self._ended:
            raise BlockingIOError
        return filled

    def _check_refusal(self, error: ssl.SSLError) -> None:
        """Raise AuthenticationFailed if the error is the server's verdict on this client's certificate."""
        if self._may_be_refused:
            raise AuthenticationFailed(f"SSL handshake failed: {reason_of(error)}") from error

    def _refuse_renegotiation(self) -> None:
        """Check what OpenSSL has answered by itself. Raises InvalidReceive: the peer asks for a new handshake.

        OpenSSL does not allow it and says so in an alert, for which the peer would wait until the next answer leaves.
        Kafka closes the connection. In TLS 1.3 the answer is to a change of keys, and leaves with the next one.
        """
        if self._outgoing.pending and self._tls.version() == "TLSv1.2":
            raise InvalidReceive("Renegotiation requested, but it is not supported")

    def _receive_if_any(self) -> bool:
        """Receive encrypted bytes once. Returns whether the socket is known to be empty now."""
        try:
            return self._receive() < RECEIVE_BYTES
        except BlockingIOError:
            return True

    def _receive(self) -> int:
        """Hand encrypted bytes of the socket to OpenSSL, and return how many: 0 at the end of the stream."""
        data = self._socket.recv(RECEIVE_BYTES)
        if data:
            self._incoming.write(data)
        else:
            # OpenSSL returns what it has, and then reports the end.
            self._incoming.write_eof()
        return len(data)

    def has_unread(self) -> bool:
        """Return whether bytes can be decrypted or peeked: a reset connection may hold requests from before."""
        if self._tls.pending() or self._incoming.pending:
            return True
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    # -- sending

    def send(self, data: Any, flags: int = 0, /) -> int:
        """Send one buffer, as much as fits. Returns the number of bytes whose encrypted form has left whole.

        Raises BlockingIOError when that is none, OSError when the connection is gone.
        """
        if 0 < len(data) <= SLICE_BYTES and not self._unsent and not self._outgoing.pending:
            return self._send_at_once(data)
        sent = self._flush()
        with memoryview(data) as view:
            while sent < len(view):
                with view[sent : sent + SLICE_BYTES] as piece:
                    if not self._send_slice(piece):
                        break
                    sent += len(piece)
            if not sent and view:
                raise BlockingIOError
        return sent

    def sendmsg(self, buffers: Iterable[Any], ancdata: Any = (), flags: int = 0, /) -> int:
        """Send several buffers, as much as fits. Returns and raises as `send` does."""
        # Joined first: a record for each small piece would cost 29 bytes, and a call of OpenSSL's.
        buffers = list(buffers)
        if not self._unsent and not self._outgoing.pending and 0 < sum(map(len, buffers)) <= SLICE_BYTES:
            return self._send_at_once(b"".join(buffers))
        sent = total = 0
        batch: list[Any] = []
        batch_bytes = 0
        for buffer in buffers:
            batch.append(buffer)
            batch_bytes += len(buffer)
            if batch_bytes >= SLICE_BYTES:
                total += batch_bytes
                sent += self._send_some(batch)
                if sent < total:
                    return self._unless_none(sent)
                batch = []
                batch_bytes = 0
        if batch:
            sent += self._send_some(batch)
            return self._unless_none(sent)
        return sent

    def _send_some(self, batch: list[Any]) -> int:
        try:
            return self.send(batch[0] if len(batch) == 1 else b"".join(batch))
        except BlockingIOError:
            return 0

    @staticmethod
    def _unless_none(sent: int) -> int:
        if not sent:
            raise BlockingIOError
        return sent

    def send_file(self, file_fd: int, position: int, count: int) -> int:
        """Read up to `count` bytes of a file, and send them; 0 means that the file ends before `position`."""
        total = 0
        while total < count:
            piece = os.pread(file_fd, min(count - total, SLICE_BYTES), position + total)
            if not piece:
                break
            try:
                sent = self.send(piece)
            except BlockingIOError:
                if total:
                    break
                raise
            total += sent
            if sent < len(piece):
                break
        return total

    def _send_at_once(self, data: Any) -> int:
        """Send one slice where nothing waits: what a small answer costs. Returns and raises as `send` does."""
        count = len(data)
        written = self._tls.write(data)
        while written < count:
            with memoryview(data)[written:] as rest:
                written += self._tls.write(rest)
        encrypted = self._outgoing.read()
        try:
            taken = self._socket.send(encrypted)
        except BlockingIOError:
            taken = 0
        if taken < len(encrypted):
            self._claimed = count
            self._unsent = memoryview(encrypted)[taken:]
            raise BlockingIOError
        return count

    def _send_slice(self, piece: memoryview) -> bool:
        """Encrypt a slice and send it. Returns whether all of it has left; otherwise `_flush` sends the rest."""
        written = 0
        while written < len(piece):
            with piece[written:] as rest:
                written += self._tls.write(rest)  # a record at a time
        self._claimed = len(piece)
        self._unsent = memoryview(self._outgoing.read())
        try:
            self._flush()
        except BlockingIOError:
            return False
        return True

    def _flush(self) -> int:
        """Send the encrypted bytes that wait. Returns the size of the slice that they end.

        Raises BlockingIOError when the socket does not take all of them.
        """
        if self._outgoing.pending:  # of the handshake, or an answer to the peer's key update
            self._unsent = memoryview(bytes(self._unsent) + self._outgoing.read())
        unsent = self._unsent
        while unsent:
            try:
                count = self._socket.send(unsent)
            except BlockingIOError:
                self._unsent = unsent
                raise
            unsent = unsent[count:]
        self._unsent = unsent
        claimed, self._claimed = self._claimed, 0
        return claimed

    def fileno(self) -> int:
        """Return the socket's descriptor."""
        return self._socket.fileno()

    def close(self) -> None:
        """Tell the peer that no more follows, unless part of a record has not left, and close the socket."""
        if self.ready and not self._unsent:
            # The peer's own close_notify is not waited for: SSL_shutdown then "wants to read".
            with suppress(OSError, ValueError):
                self._tls.unwrap()
            with suppress(OSError):
                self._flush()
        self._socket.close()


_HINTS: Final = {
    "HTTP_REQUEST": "the peer sent an HTTP request",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS: it has to be set up for SSL, or to use another listener",
    "UNEXPECTED_MESSAGE": "the peer sent another message than TLS asks for",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has to present a certificate (ssl.client.auth=required)",
    "NO_SHARED_CIPHER": "the peers have no cipher suite in common",
    "UNSUPPORTED_PROTOCOL": "the peers have no version of TLS in common",
}


def reason_of(error: ssl.SSLError) -> str:
    """Return an error of OpenSSL as a text for a person: its reason, and a hint where the reason is no plain text."""
    reason = getattr(error, "reason", None) or str(error)  # ssl's own errors have none
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{reason}: {error.verify_message}"
    hint = _HINTS.get(reason)
    return reason if hint is None else f"{reason}: {hint}"
