"""A thousand connections that misbehave in every way we could think of, and clients that do not: with a limit on what
requests and answers may take (queued.max.request.bytes), the broker's memory stays bounded, and the others are served.
"""

from __future__ import annotations

import logging
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.barnabas_process import BarnabasProcess
from tests.support.broker_metrics import metric_value
from tests.support.crowd import Crowd, drip, never_read, nothing, only, read_slowly
from tests.support.raw_client import RawClient, make_batch
from tests.support.server_fixtures import AGAINST_KAFKA, MODES, Server, make_server
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="bounds on our own broker's memory")

logger = logging.getLogger(__name__)
MIB = 1 << 20
LIMIT = 64 * MIB
PER_CONNECTION = 64 * 1024
LARGE_VALUE = b"v" * (300 * 1024)
DRIPPED_VALUE = b"v" * MIB
OLD_FETCH = 2  # its records are converted

TOPICS_ASKED_FOR = 2500
"""Of one Metadata request below 64 KiB, whose answer is several times as long."""


def resident_bytes(server: Server) -> int:
    for line in Path(f"/proc/{server.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


class Behaved:
    """Clients that read their answers, each on a thread; `served` counts their requests."""

    def __init__(self, server: Server, topic: str) -> None:
        self.served: Counter[str] = Counter()
        self.failures: list[Exception] = []
        self._server = server
        self._topic = topic
        self._ended = threading.Event()
        kinds: dict[str, Callable[[RawClient], None]] = {
            "produce small": self._produce_small,
            "produce large": self._produce_large,
            "fetch": self._fetch,
            "metadata": self._metadata,
        }
        self._threads = [threading.Thread(target=self._run, args=kind, name=kind[0]) for kind in kinds.items()]

    @contextmanager
    def running(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        yield
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self.failures:
            raise self.failures[0]

    def _run(self, kind: str, call: Callable[[RawClient], None]) -> None:
        try:
            with RawClient(self._server) as client:
                while not self._ended.wait(0.02):
                    call(client)
                    self.served[kind] += 1
        except Exception as error:  # noqa: BLE001 - told by the thread that watches
            self.failures.append(error)

    def _produce_small(self, client: RawClient) -> None:
        client.produce_values(self._topic, b"small", partition=1)

    def _produce_large(self, client: RawClient) -> None:
        client.produce_values(self._topic, LARGE_VALUE, partition=1)

    def _fetch(self, client: RawClient) -> None:
        assert client.fetch(self._topic, 0).error_code == ErrorCode.NONE

    def _metadata(self, client: RawClient) -> None:
        assert client.metadata(self._topic).error_code == ErrorCode.NONE


def crowd_of(size: int, server: Server, client: RawClient, topic: str) -> Crowd:
    """`size` connections of every kind of misbehaviour."""
    large = client.encode(client.produce_request(topic, make_batch([DRIPPED_VALUE]), 9, acks=-1), 9)
    medium = client.encode(client.produce_request(topic, make_batch([b"v" * 50_000]), 9, acks=-1), 9)
    fetch = client.encode(client.fetch_request(topic, 0), 12)
    old_fetch = client.encode(client.fetch_request(topic, 0, OLD_FETCH), OLD_FETCH)
    names = [MetadataRequest.MetadataRequestTopic(name=f"unknown-topic-{n}") for n in range(TOPICS_ASKED_FOR)]
    metadata = client.encode(MetadataRequest(names, allow_auto_topic_creation=False), 9)
    assert len(metadata) < 65_536
    nonsense = struct.pack(">i", 20_000) + b"\x7f" * 20_000
    share = size // 20
    kinds = {
        "says nothing": (4 * share, nothing),
        "prefix of a large frame": (2 * share, only(struct.pack(">i", 50 * MIB))),
        "half of a medium frame": (2 * share, only(medium[:40_000])),
        "half of a large frame": (2 * share, only(large[: MIB // 2])),
        "talks nonsense": (2, only(nonsense)),
        "drips a large frame": (4 * share, drip(large, 100_000, 100)),
        "never reads fetches": (2 * share, never_read(fetch, 100)),
        "never reads old fetches": (share, never_read(old_fetch, 20)),
        "never reads metadata": (2 * share, never_read(metadata, 20)),
        "reads slowly": (share, read_slowly(fetch, 1000)),
    }
    return Crowd((server.host, server.port), kinds)


def watch(server: Server, behaved: Behaved, seconds: float, bound: int) -> int:
    """Let time pass; each client is served again and again, and memory stays within the bound. Returns its peak."""
    peak = 0
    deadline = time.monotonic() + seconds
    for phase in range(3):
        before = behaved.served.copy()
        phase_ends = time.monotonic() + seconds / 3
        while True:
            resident = resident_bytes(server)
            peak = max(peak, resident)
            assert resident < bound, f"{resident / MIB:.1f} MiB of {bound / MIB:.1f} in phase {phase}"
            assert not behaved.failures, behaved.failures
            unserved = [kind for kind in behaved.served if behaved.served[kind] <= before[kind]]
            now = time.monotonic()
            if now > phase_ends and not unserved and len(behaved.served) == 4:
                break
            assert now < deadline + 60, f"not served in phase {phase}: {unserved}"
            time.sleep(0.02)
    return peak


def wait_for_empty_pool(server: Server) -> None:
    """A frame is given back when its handler returns, which may be after its client has the answer."""
    assert isinstance(server, BarnabasProcess)
    used = partial(metric_value, server.ports["http"], "kafka_network_socketserver_memorypoolused")
    wait_until(used, 30, lambda used_bytes: not used_bytes)


@pytest.mark.usefixtures("many_descriptors")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("size", "seconds"),
    [(300, 6), pytest.param(1000, 40, marks=[pytest.mark.slow, pytest.mark.timeout(300)])],
    ids=["300", "1000"],
)
def test_memory_is_bounded_and_others_are_served(mode: str, size: int, seconds: float, tmp_path: Path) -> None:
    server = make_server(
        mode,
        tmp_path / "server",
        queued_max_request_bytes=str(LIMIT),
        socket_request_max_bytes=str(LIMIT),
        metrics_listen="127.0.0.1:0",
    )
    with server.running(), RawClient(server) as client:
        client.create_topic("topic", 2)
        for number in range(8):
            client.produce_values("topic", bytes([number]) * (128 * 1024))
        # What is loaded when it is first needed belongs to the idle broker.
        assert client.fetch("topic", 0).error_code == client.fetch("topic", 0, OLD_FETCH).error_code == ErrorCode.NONE
        assert client.call(MetadataRequest(None), 9, MetadataResponse).topics
        wait_for_empty_pool(server)
        idle = resident_bytes(server)
        behaved = Behaved(server, "topic")
        with behaved.running(), crowd_of(size, server, client, "topic") as crowd:
            peak = watch(server, behaved, seconds, idle + LIMIT + PER_CONNECTION * (size + 5))
        logger.info(
            "%s, %d connections: idle %.1f, peak %.1f MiB; served %s; thrown out %s",
            *(mode, size, idle / MIB, peak / MIB, dict(behaved.served), dict(crowd.thrown_out)),
        )
        # The crowd is gone, and so is all it held: a frame of nearly the whole limit is received again.
        client.socket.settimeout(60)
        result = client.produce("topic", make_batch([bytes(LIMIT - MIB)]))
        assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
        wait_for_empty_pool(server)
        assert "not properly release()ed" not in server.log_text()
