"""Creates, fills and deletes topics while the broker is being killed, and notes which of it was acknowledged."""

from __future__ import annotations

import threading
import time

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tests.support.raw_client import ConnectionClosed, RawClient, make_batch
from tests.support.server_process import ServerProcess

KEPT = 4
"""Older topics than this many are deleted."""


class TopicChurn:
    """Its thread runs during one life of the broker; what it knows outlives it.

    values: the acknowledged values of each topic that must exist, by partition 0's offset. deleted: topics whose
    deletion was acknowledged. undecided: topics whose deletion was asked for and not answered.
    """

    def __init__(self) -> None:
        self.values: dict[str, dict[int, bytes]] = {}
        self.deleted: set[str] = set()
        self.undecided: set[str] = set()
        self._number = 0
        self._thread: threading.Thread | None = None
        self._stopping = threading.Event()

    def resume(self, server: ServerProcess) -> None:
        """Go on against this life of the broker, until it dies or `rest` is called."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._run, args=(server,), name="topic-churn", daemon=True)
        self._thread.start()

    def rest(self) -> None:
        """Stop and wait."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(60)
            assert not self._thread.is_alive()

    def _run(self, server: ServerProcess) -> None:
        try:
            with RawClient(server) as client:
                while not self._stopping.is_set():
                    self._one_topic(client)
                    for doomed in [name for name in self.values if name not in self.undecided][:-KEPT]:
                        self._delete(client, doomed)
                    time.sleep(0.02)
        except (ConnectionClosed, OSError):
            return

    def _one_topic(self, client: RawClient) -> None:
        self._number += 1
        name = f"churn-{self._number}"
        settings = [CreateTopicsRequest.CreatableTopicConfig("segment.bytes", "2000")]
        new = CreateTopicsRequest.CreatableTopic(name, 2, 1, [], settings)
        (result,) = client.call(CreateTopicsRequest([new], 10_000), 5, CreateTopicsResponse).topics
        assert result.error_code == ErrorCode.NONE, result
        known = self.values[name] = {}
        client.wait_for_leaders(name, 2)
        for number in range(6):
            values = [b"%s/%d/%d" % (name.encode(), number, index) + bytes(150) for index in range(4)]
            answer = client.produce(name, make_batch(values), acks=1)
            assert answer.error_code == ErrorCode.NONE, answer
            known.update((answer.base_offset + index, value) for index, value in enumerate(values))

    def _delete(self, client: RawClient, name: str) -> None:
        self.undecided.add(name)
        request = DeleteTopicsRequest([], [name], 10_000)
        (result,) = client.call(request, 4, DeleteTopicsResponse).responses
        if result.error_code == ErrorCode.NONE:
            del self.values[name]
            self.undecided.discard(name)
            self.deleted.add(name)
