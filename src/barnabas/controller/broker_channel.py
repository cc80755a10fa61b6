"""How the controller reaches a broker: a Protocol, and the channel to the broker in its own process.

Made by the channel factory that `broker` gives the controller, one per live broker, used by the controller's thread
only; requests are answered on the channel's own thread, `broker-channel-<id>`, in the order they were sent. `_queue` is
the hand-over; the Lock in it is the only one. A channel over the network takes the same place in a cluster.

Kafka: kafka.controller.ControllerChannelManager, RequestSendThread.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

logger = logging.getLogger(__name__)

OnLeaderAndIsrResponse = Callable[[LeaderAndIsrResponse], None]
OnUpdateMetadataResponse = Callable[[UpdateMetadataResponse], None]
OnStopReplicaResponse = Callable[[StopReplicaResponse], None]


class BrokerChannel(Protocol):
    """One broker's ear. The calls return at once; `on_response` is called later, on any thread, or never (closed)."""

    def start(self) -> None:
        """Begin to send."""

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        """Tell who leads partitions the broker hosts."""

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        """Tell the cluster's metadata."""

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        """Have replicas stopped, some of them deleted."""

    def close(self) -> None:
        """Send no more; what is queued is dropped."""


class InProcessBrokerChannel:
    """The channel to the broker the controller runs in: three calls, made on one thread.

    Arguments: the broker's id, and what a network request would reach in the broker:
    `apply_leader_and_isr` (ReplicaManager.apply_leader_and_isr), `update_metadata` (checks the epochs, then
    MetadataCache.update_metadata, then what depends on it), `stop_replicas` (ReplicaManager.stop_replicas). An ApiError
    they raise is answered as the response's error code, anything else is logged and answered as
    UNKNOWN_SERVER_ERROR: like a broker's answer over the network.
    """

    def __init__(
        self,
        broker_id: int,
        apply_leader_and_isr: Callable[[LeaderAndIsrRequest], LeaderAndIsrResponse],
        update_metadata: Callable[[UpdateMetadataRequest], UpdateMetadataResponse],
        stop_replicas: Callable[[StopReplicaRequest], StopReplicaResponse],
    ) -> None:
        self._broker_id = broker_id
        self._apply_leader_and_isr = apply_leader_and_isr
        self._update_metadata = update_metadata
        self._stop_replicas = stop_replicas
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"broker-channel-{broker_id}", daemon=True)

    def start(self) -> None:
        """See BrokerChannel."""
        self._thread.start()

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        """See BrokerChannel."""
        self._queue.put(lambda: on_response(self._leader_and_isr_response(request)))

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        """See BrokerChannel."""
        self._queue.put(lambda: on_response(self._update_metadata_response(request)))

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        """See BrokerChannel."""
        self._queue.put(lambda: on_response(self._stop_replica_response(request)))

    def close(self) -> None:
        """See BrokerChannel; waits for the request being served, unless that is what calls."""
        self._closed.set()
        self._queue.put(None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while (send := self._queue.get()) is not None and not self._closed.is_set():
            try:
                send()
            except Exception:
                # a fault in a callback of the controller; the next request must still reach the broker
                logger.exception("A request of the controller to broker %d failed", self._broker_id)

    def _leader_and_isr_response(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        try:
            return self._apply_leader_and_isr(request)
        except Exception as error:  # noqa: BLE001 - becomes the broker's answer, as it would over the network
            return LeaderAndIsrResponse(error_code=self._error_code(error))

    def _update_metadata_response(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        try:
            return self._update_metadata(request)
        except Exception as error:  # noqa: BLE001 - becomes the broker's answer, as it would over the network
            return UpdateMetadataResponse(error_code=self._error_code(error))

    def _stop_replica_response(self, request: StopReplicaRequest) -> StopReplicaResponse:
        try:
            return self._stop_replicas(request)
        except Exception as error:  # noqa: BLE001 - becomes the broker's answer, as it would over the network
            code = self._error_code(error)
            failed = [
                StopReplicaResponse.StopReplicaPartitionError(topic.topic_name, partition.partition_index, code)
                for topic in request.topic_states
                for partition in topic.partition_states
            ]
            return StopReplicaResponse(error_code=code, partition_errors=failed)

    def _error_code(self, error: Exception) -> int:
        if isinstance(error, ApiError):
            return int(error.code)
        logger.error("Broker %d failed to act on a request of the controller", self._broker_id, exc_info=error)
        return int(ErrorCode.UNKNOWN_SERVER_ERROR)
