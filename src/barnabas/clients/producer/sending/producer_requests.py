"""The requests that a producer sends beside its batches: for a producer id or transactions, and to push its metrics.

Owned by the sending thread; no lock. Kafka: Sender, TransactionManager.InitProducerIdHandler.
"""

from __future__ import annotations

import logging
from typing import Protocol

from barnabas.clients.producer.accumulator.record_accumulator import RecordAccumulator
from barnabas.clients.producer.batches.sequence_numbers import SequenceNumbers
from barnabas.clients.producer.producer_config import ProducerConfig
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from barnabas.rpc.client_request import ClientResponse
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient

logger = logging.getLogger(__name__)

_TRANSACTION_TIMEOUT_MS = 2**31 - 1
"""Without a transactional id the broker ignores the value. Kafka's producer sends this one."""


class _ProducerIdRequests:
    """The InitProducerId requests of an idempotent producer without transactions: one at a time, to any node."""

    def __init__(
        self,
        client: NetworkClient,
        accumulator: RecordAccumulator,
        sequences: SequenceNumbers,
        config: ProducerConfig,
    ) -> None:
        self._client = client
        self._accumulator = accumulator
        self._sequences = sequences
        self._config = config
        self._is_in_progress = False
        self._next_attempt_ms = 0

    def turn(self, now_ms: int) -> int:
        """Restart what must be numbered again, and request a producer id where there is none.

        Returns the milliseconds until a retry is due.
        """
        self._sequences.restart_partitions()
        return self._send(now_ms) if self._sequences.needs_producer_id else FOREVER_MS

    def must_go_on(self) -> bool:
        """Return False: a producer that closes needs no answer."""
        return False

    def closed(self) -> None:
        """Do nothing: no call of a user waits for a producer id."""

    def _send(self, now_ms: int) -> int:
        if self._is_in_progress:
            return FOREVER_MS
        if now_ms < self._next_attempt_ms:
            return self._next_attempt_ms - now_ms
        node = self._client.least_loaded_node(now_ms)
        if node is None or not self._client.ready(node, now_ms):
            return self._config.reconnect_backoff_ms
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS)
        request = self._client.new_request(node.id, message, callback=self._handle_response)
        self._is_in_progress = True
        self._client.send(request, now_ms)
        return FOREVER_MS

    def _handle_response(self, response: ClientResponse) -> None:
        self._is_in_progress = False
        self._next_attempt_ms = response.received_ms + self._config.retry_backoff_ms
        body = response.body
        if response.version_error is not None:
            self._accumulator.abort_undrained(response.version_error)
        elif isinstance(body, InitProducerIdResponse):
            error = error_of(body.error_code)
            if error is ErrorCode.NONE:
                logger.info("ProducerId set to %d with epoch %d", body.producer_id, body.producer_epoch)
                self._sequences.set_producer_id(body.producer_id, body.producer_epoch)
            # No retry brings an id, and without one no batch can ever be sent: waiting for the delivery timeout would
            # only delay the error.
            elif not error.retriable and error is not ErrorCode.COORDINATOR_NOT_AVAILABLE:
                self._accumulator.abort_undrained(ApiError(error))


class ProducerRequests(Protocol):
    """The requests of one purpose of one producer."""

    def turn(self, now_ms: int) -> int:
        """Send what is due. Returns the milliseconds until the next call makes sense."""
        ...

    def must_go_on(self) -> bool:
        """Return whether a producer that closes still has to send or to wait for an answer."""
        ...

    def closed(self) -> None:
        """Fail what still waits, because the sending thread ends."""
        ...


def producer_requests(
    client: NetworkClient, accumulator: RecordAccumulator, sequences: SequenceNumbers, config: ProducerConfig
) -> ProducerRequests:
    """Return the requests that go with these sequence numbers."""
    if config.transactional_id is None:
        return _ProducerIdRequests(client, accumulator, sequences, config)
    # Imported when used: most producers have no transactions.
    from barnabas.clients.producer.transactions.transaction_requests import (  # noqa: PLC0415
        TransactionalSequences,
        TransactionRequests,
    )

    assert isinstance(sequences, TransactionalSequences)
    return TransactionRequests(client, accumulator, sequences, config)
