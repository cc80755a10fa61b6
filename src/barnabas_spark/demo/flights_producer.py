"""Produces the flights on a thread of its own, while Spark starts.

Made and joined by `demo` on the main thread. The producing thread alone writes the counters and the error; the main
thread reads them after `join`, and before that only to show them.
"""

from __future__ import annotations

import threading
import time

from barnabas.clients.producer import Producer, RecordMetadata
from barnabas_spark.demo.delay_table import FLIGHTS_TOPIC, Totals
from barnabas_spark.demo.display import Task
from barnabas_spark.demo.flights import flight_records

_SHOWN_EVERY = 2_000
_NO_DEPARTURE = b'"dep_time":null'


class FlightsProducer:
    """A producer of every flight as a record keyed by its carrier, with the totals that must come out in the end."""

    def __init__(self, bootstrap_servers: str, task: Task) -> None:
        self._producer = Producer(
            bootstrap_servers, client_id="flights", linger_ms=20, batch_size=128 << 10, compression_type="lz4"
        )
        self._task = task
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flights-producer")
        self.flights = 0
        self.cancelled = 0
        self.size_bytes = 0
        self.seconds = 0.0
        self.error: Exception | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """End early, even if the broker no longer answers, and wait for the thread. Idempotent."""
        self._stopping.set()
        # `close` fails the records that wait, so that a `send` in the thread returns even if the broker hangs.
        self._producer.close(timeout_ms=0)
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def is_done(self) -> bool:
        """Whether all flights are acknowledged, or producing has failed."""
        return not self._thread.is_alive()

    @property
    def totals(self) -> Totals:
        """The totals of the flights that were sent."""
        return Totals(self.flights, self.cancelled)

    def _run(self) -> None:
        try:
            self._produce()
        except Exception as error:  # noqa: BLE001 the main thread raises it
            self.error = error

    def _produce(self) -> None:
        """Produce all flights, on the thread. Raises what the producer raises."""
        started = time.perf_counter()
        errors: list[BaseException] = []

        def on_delivery(_: RecordMetadata | None, error: BaseException | None) -> None:
            if error is not None:
                errors.append(error)

        for key, value in flight_records():
            self._producer.send(FLIGHTS_TOPIC, value, key, on_delivery=on_delivery)
            self.flights += 1
            self.size_bytes += len(key) + len(value)
            self.cancelled += _NO_DEPARTURE in value
            # `stop` and a failed delivery are looked at only now and then: both cost a lock or a call for each record
            # otherwise.
            if not self.flights % _SHOWN_EVERY:
                self._task.advance_to(self.flights, f"{self.flights / (time.perf_counter() - started):,.0f}/s")
                if self._stopping.is_set() or errors:
                    break
        self._producer.close()
        if errors:
            raise RuntimeError(f"the broker did not take every flight: {errors[0]}") from errors[0]
        self.seconds = time.perf_counter() - started
        if not self._stopping.is_set():
            self._task.finish(f"{self.flights / self.seconds:,.0f}/s")
