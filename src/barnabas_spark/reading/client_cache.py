"""This process's connections to brokers, kept between tasks and micro-batches.

Used by the readers on the driver and in the executors' Python workers, and by the row sender. Each kind of client is
imported when the first one is made: Spark's processes are many and short-lived, and each needs one kind. Each process
uses its clients on one thread, so there is no lock. Spark forks its workers, and a child must not use its parent's
connections, so the cache belongs to one process id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from barnabas.clients.calls.raw_fetcher import RawFetcher
    from barnabas.clients.producer import Producer
    from barnabas_spark.options.sink_options import SinkOptions
    from barnabas_spark.options.source_options import ConnectionOptions, SourceOptions
    from barnabas_spark.reading.admin_offsets import AdminOffsets


class _Closable(Protocol):
    """A client of any kind."""

    def close(self) -> None:
        """Close the connections."""


C = TypeVar("C", bound=_Closable)


class ClientCache:
    """The clients of this process, each made when it is first needed."""

    def __init__(self) -> None:
        self._process_id = os.getpid()
        self._clients: dict[tuple[Any, ...], _Closable] = {}

    def offsets(self, options: SourceOptions) -> AdminOffsets:
        """Return a client that looks up topics and offsets, and commits those of groups."""
        return self._client(("offsets", options.connection, options.retries), lambda: _offsets(options))

    def fetcher(self, options: SourceOptions) -> RawFetcher:
        """Return a client that fetches batches."""
        return self._client(("fetcher", options.connection), lambda: _fetcher(options.connection))

    def producer(self, options: SinkOptions) -> Producer:
        """Return a client that sends batches."""
        return self._client(_producer_key(options), lambda: _producer(options))

    def discard_producer(self, options: SinkOptions) -> None:
        """Close and forget a producer after an error, because its queued records belong to a task that has failed."""
        producer = self._own().pop(_producer_key(options), None)
        if producer is not None:
            # No wait for the queued records: no caller waits for their results, and the task reports its error at once.
            cast("Producer", producer).close(timeout_ms=0)

    def close(self) -> None:
        """Close all of this process's clients."""
        clients = self._own()
        while clients:
            clients.popitem()[1].close()

    def _client(self, key: tuple[Any, ...], make: Callable[[], C]) -> C:
        clients = self._own()
        client = clients.get(key)
        if client is None:
            client = clients[key] = make()
        return cast("C", client)

    def _own(self) -> dict[tuple[Any, ...], _Closable]:
        if os.getpid() != self._process_id:
            # This is a forked child. It must not close the clients: the sockets are its parent's, and still in use.
            self._process_id = os.getpid()
            self._clients = {}
        return self._clients


def _producer_key(options: SinkOptions) -> tuple[Any, ...]:
    return (
        # The settings that differ between queries. A query with other settings gets a producer of its own; but not for
        # another `bootstrap_timeout_ms`, which means nothing to a producer that has reached a broker.
        "producer", options.bootstrap_servers, options.client_id, options.request_timeout_ms,
        options.delivery_timeout_ms, options.max_block_ms, options.enable_idempotence, options.max_request_bytes,
        options.buffer_bytes, options.security,
    )  # fmt: skip


def _offsets(options: SourceOptions) -> AdminOffsets:
    from barnabas_spark.reading.admin_offsets import AdminOffsets  # noqa: PLC0415 - see the module's docstring

    return AdminOffsets(options.connection, options.retries)


def _fetcher(connection: ConnectionOptions) -> RawFetcher:
    from barnabas.clients.calls.raw_fetcher import RawFetcher  # noqa: PLC0415
    from barnabas.clients.settings.client_security import channel_builder  # noqa: PLC0415
    from barnabas.clients.values import isolation_number  # noqa: PLC0415

    return RawFetcher(
        connection.bootstrap_servers,
        client_id=connection.client_id,
        timeout_ms=connection.api_timeout_ms,
        request_timeout_ms=connection.request_timeout_ms,
        isolation_level=isolation_number(connection.isolation_level),
        channel_builder=channel_builder(connection.security, connection.client_id),
    )


def _producer(options: SinkOptions) -> Producer:
    from barnabas.clients.producer import Producer  # noqa: PLC0415

    return Producer(
        options.bootstrap_servers,
        client_id=options.client_id,
        acks="all",
        enable_idempotence=options.enable_idempotence,
        request_timeout_ms=options.request_timeout_ms,
        delivery_timeout_ms=options.delivery_timeout_ms,
        max_block_ms=options.max_block_ms,
        bootstrap_timeout_ms=options.bootstrap_timeout_ms,
        max_request_size=options.max_request_bytes,
        buffer_memory=options.buffer_bytes,
        **options.security.security_settings(),
    )


connections = ClientCache()
