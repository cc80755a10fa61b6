"""Records for the groups to work on: numbered values, spread over the partitions of a topic, produced in one go or on
a thread that goes on until it is stopped.

Raw requests, so that a consumer alone is on trial. A broker that is gone is tried again until it is back; a batch may
then be in the log twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.protocol.errors import ErrorCode
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.server_process import ServerProcess

TRY_SECONDS = 60
GAP_SECONDS = 0.05


class Feed:
    """Produces to one topic; its thread owns its connection."""

    def __init__(self, server: ServerProcess, topic: str, partitions: int) -> None:
        self._server = server
        self._topic = topic
        self._partitions = partitions
        self._client: RawClient | None = None
        self.produced = 0

    def produce(self, count: int, batch_records: int = 50) -> None:
        """Produce the next `count` values, a batch to a partition in turn."""
        batch = 0
        while count > 0:
            values = [b"%d" % (self.produced + index) for index in range(min(batch_records, count))]
            self._produce_batch(make_batch(values), batch % self._partitions)
            self.produced += len(values)
            count -= len(values)
            batch += 1

    def _produce_batch(self, batch: bytes, partition: int) -> None:
        deadline = time.monotonic() + TRY_SECONDS
        while True:
            try:
                self._client = self._client or RawClient(self._server)
                result = self._client.produce(self._topic, batch, partition=partition)
                if result.error_code == ErrorCode.NONE:
                    return
                problem = str(result)
            except (OSError, ConnectionClosed) as failure:
                self.close()
                problem = repr(failure)
            assert time.monotonic() < deadline, problem
            time.sleep(0.1)

    def close(self) -> None:
        """Close its connection."""
        if self._client is not None:
            self._client.close()
            self._client = None

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Inside the block, a few records go to every partition about 20 times a second."""
        stopped = threading.Event()
        failures: list[Exception] = []

        def flow() -> None:
            try:
                while not stopped.is_set():
                    self.produce(self._partitions * 2, batch_records=2)
                    stopped.wait(GAP_SECONDS)
            except Exception as failure:  # noqa: BLE001 - raised again below, on the test's thread
                failures.append(failure)

        thread = threading.Thread(target=flow, name="feed")
        thread.start()
        try:
            yield
        finally:
            stopped.set()
            thread.join()
            self.close()
        if failures:
            raise failures[0]
