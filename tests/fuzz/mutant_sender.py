"""Sends mutants over one connection at a time, and says what came of each. One thread each; the campaign has several.

Some mutants go alone over a fresh connection, some follow each other on one that lives, some go in a burst cut into
random pieces, some connections are dropped in the middle of a frame.
"""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from typing import Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import encode_request_header
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from tests.fuzz.real_requests import PROTECTED_FIELDS_BYTES, RealRequests
from tests.support.mutator import Mutator
from tests.support.raw_client import ConnectionClosed, RawClient
from tests.support.server_process import ServerProcess

PATIENCE_SECONDS, SILENCE_SECONDS = 30.0, 0.02
MAY_STAY_SILENT: Final = {
    struct.pack(">h", api_key)
    for api_key in (
        ApiKey.PRODUCE,
        ApiKey.FETCH,
        ApiKey.ELECT_LEADERS,
        ApiKey.DELETE_RECORDS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.JOIN_GROUP,  # a mutant may join where others are, who have their time to join again
        ApiKey.SYNC_GROUP,
    )
}
"""API keys, as they stand in a frame, of which a mutant may ask for no acknowledgement, or for a wait of days."""
_ALONE, _BURST, _CUT_OFF, _LYING_SIZE = 0.3, 0.05, 0.02, 0.03
_CLOSED: Final = (ConnectionClosed, ConnectionResetError, BrokenPipeError)
_CLIENT_ID = "fuzz"
_API_KEY_BYTES: Final = 2
ApiVersion = tuple[ApiKey, int]


class Hang(Exception):
    """A whole frame was neither answered nor its connection closed."""


class MutantSender(threading.Thread):
    """Sends mutants of `versions` in random order, over and over, until `stop` is set."""

    def __init__(
        self, server: ServerProcess, versions: list[ApiVersion], target_id: bytes, seed: int, stop: threading.Event
    ) -> None:
        super().__init__(name=f"mutants-{seed}", daemon=True)
        self._server = server
        self._random = source = random.Random(seed)
        self._requests = RealRequests(source, target_id)
        self._mutator = Mutator(source)
        self._versions = list(versions)
        self._stop_event = stop
        self._client: RawClient | None = None
        self.outcomes: Counter[str] = Counter()
        self.sent = 0
        self.reached_body: Counter[ApiVersion] = Counter()
        """Mutants in a frame of the right size whose header is whole: the body decoder gets them."""
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Round after round of all versions."""
        try:
            while not self._stop_event.is_set():
                self._random.shuffle(self._versions)
                for api_key, version in self._versions:
                    self._next(api_key, version)
                    if self._stop_event.is_set():
                        break
        except BaseException as failure:  # noqa: BLE001 - the campaign raises it
            self.failure = failure
            self._stop_event.set()
        finally:
            self._hang_up()

    def _next(self, api_key: ApiKey, version: int) -> None:
        if self._random.random() < _BURST:
            self._burst()
            return
        if self._random.random() < _ALONE:
            self._hang_up()
        mutant = self._mutant(api_key, version)
        if self._random.random() < _CUT_OFF:
            self.outcomes[self._send_start(mutant)] += 1
            self._hang_up()
            return
        outcome = self._send(mutant)
        self.outcomes[outcome] += 1
        if outcome != "answered":
            self._hang_up()

    def _mutant(self, api_key: ApiKey, version: int) -> bytes:
        chance = self._random
        header = encode_request_header(api_key, version, chance.randrange(1 << 31), _CLIENT_ID)
        body = b"".join(bytes(piece) for piece in self._requests.make(api_key, version).encode(version))
        protected = len(header) + PROTECTED_FIELDS_BYTES.get(api_key, 0)
        in_header = chance.random() < 0.05 and api_key not in PROTECTED_FIELDS_BYTES
        # The API key stays: a flipped bit makes an order of a controller of a harmless request.
        frame = self._mutator.mutate(header + body, _API_KEY_BYTES if in_header else protected)
        size = len(frame)
        if chance.random() < _LYING_SIZE:
            size = chance.choice([0, -1, size - 1, size + 1, chance.randrange(2 * size + 1), 2**31 - 1])
        self.sent += 1
        self.reached_body[api_key, version] += size == len(frame) and frame.startswith(header)
        return struct.pack(">i", size) + frame

    def _send_start(self, mutant: bytes) -> str:
        """Send the start of it and no more: `cut off`, or `closed`."""
        try:
            self._connected().socket.sendall(mutant[: self._random.randrange(len(mutant))])
        except _CLOSED:
            return "closed"  # a lying size is refused as soon as it is read, while a large frame is still being sent
        return "cut off"

    def _send(self, mutant: bytes) -> str:
        """Send it: `answered`, `closed` or `silent`."""
        is_whole = struct.unpack_from(">i", mutant)[0] == len(mutant) - 4
        patient = is_whole and mutant[4:6] not in MAY_STAY_SILENT
        try:
            client = self._connected()
            client.socket.settimeout(PATIENCE_SECONDS)
            client.socket.sendall(mutant)
            client.socket.settimeout(PATIENCE_SECONDS if patient else SILENCE_SECONDS)
            client.receive_frame()
        except _CLOSED:
            return "closed"
        except TimeoutError:
            if patient:
                raise Hang(f"no answer to {mutant.hex()}") from None
            return "silent"
        return "answered" if is_whole else "answered by chance"

    def _burst(self) -> None:
        """Many frames in few pieces, and behind them a request that is answered if the connection lives that long."""
        chance = self._random
        self._hang_up()
        mutants = [self._mutant(*chance.choice(self._versions)) for _ in range(chance.randrange(2, 12))]
        client = self._connected()
        client.socket.settimeout(SILENCE_SECONDS * 10)
        last = client.encode(ApiVersionsRequest(), 0, 77)
        stream = b"".join([*mutants, last])
        try:
            while stream:
                cut = chance.randrange(1, len(stream) + 1)
                client.socket.sendall(stream[:cut])
                stream = stream[cut:]
            while client.receive_frame()[:4] != struct.pack(">i", 77):
                pass
            self.outcomes["burst answered"] += 1
        except _CLOSED:
            self.outcomes["burst closed"] += 1
        except TimeoutError:
            self.outcomes["burst silent"] += 1  # one of them waits, or all that follows is swallowed by a lying size
        self._hang_up()

    def _connected(self) -> RawClient:
        if self._client is None:
            self._client = RawClient(self._server)
        return self._client

    def _hang_up(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
