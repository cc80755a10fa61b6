"""A channel to a broker in the test's own process: three calls, made in order on one thread, without a network."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable

from barnabas.controller.controller_channel_manager import (
    OnLeaderAndIsrResponse,
    OnReachabilityChange,
    OnStopReplicaResponse,
    OnUpdateMetadataResponse,
)
from barnabas.protocol.messages.inter_broker import (
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)


class InProcessBrokerChannel:
    """A BrokerChannel to three functions."""

    def __init__(
        self,
        broker_id: int,
        apply_leader_and_isr: Callable[[LeaderAndIsrRequest], LeaderAndIsrResponse],
        update_metadata: Callable[[UpdateMetadataRequest], UpdateMetadataResponse],
        stop_replicas: Callable[[StopReplicaRequest], StopReplicaResponse],
    ) -> None:
        self._apply_leader_and_isr = apply_leader_and_isr
        self._update_metadata = update_metadata
        self._stop_replicas = stop_replicas
        self._queue: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"broker-channel-{broker_id}", daemon=True)

    def start(self, on_reachability_change: OnReachabilityChange) -> None:
        self._thread.start()

    def leader_and_isr(self, request: LeaderAndIsrRequest, on_response: OnLeaderAndIsrResponse) -> None:
        self._queue.put(lambda: on_response(self._apply_leader_and_isr(request)))

    def update_metadata(self, request: UpdateMetadataRequest, on_response: OnUpdateMetadataResponse) -> None:
        self._queue.put(lambda: on_response(self._update_metadata(request)))

    def stop_replica(self, request: StopReplicaRequest, on_response: OnStopReplicaResponse) -> None:
        self._queue.put(lambda: on_response(self._stop_replicas(request)))

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (send := self._queue.get()) is not None:
            send()
