"""The look-up of the node that coordinates the group, and its answer.

Owned by the `CoordinatorChannel`: every method is called under the channel's lock, and all but `node` on its thread.
At most one FindCoordinator request is on its way. Kafka: AbstractCoordinator (its look-up).
"""

from __future__ import annotations

import logging

from barnabas.clients.consumer.group.config import GroupRebalanceConfig
from barnabas.clients.consumer.group.coordinator_answers import Reaction, reaction_to
from barnabas.clients.consumer.group.group_requests import find_coordinator
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.find_coordinator import FindCoordinatorResponse
from barnabas.rpc.client_request import ClientResponse, ResponseCallback
from barnabas.rpc.connection_states import ExponentialBackoff, Node
from barnabas.rpc.metadata_updater import FOREVER_MS
from barnabas.rpc.network_client import NetworkClient

logger = logging.getLogger(__name__)


class CoordinatorLookup:
    """The look-up of one group. `node`: the coordinator, or None while it is not known.

    `is_wanted`: whether to look for the coordinator even if no call waits. `reason`: why it was not found last.
    """

    def __init__(self, config: GroupRebalanceConfig, network: NetworkClient, backoff: ExponentialBackoff) -> None:
        self.node: Node | None = None
        self.is_wanted = False
        self.reason = ""
        self._config = config
        self._network = network
        self._backoff = backoff
        self._is_asked = False
        self._failures = 0
        self._next_attempt_ms = 0

    def ask(self, now_ms: int, on_answer: ResponseCallback) -> int:
        """Send FindCoordinator to any node, if the backoff is over and no such request is in flight.

        Returns the milliseconds until the next call of this method makes sense.
        """
        if self._is_asked:
            return FOREVER_MS
        if now_ms < self._next_attempt_ms:
            return self._next_attempt_ms - now_ms
        node = self._network.least_loaded_node(now_ms)
        if node is None:
            return self._config.retry_backoff_ms
        if not self._network.ready(node, now_ms):
            delay_ms = self._network.poll_delay_ms(node, now_ms)
            return FOREVER_MS if delay_ms is None else delay_ms
        request = self._network.new_request(node.id, find_coordinator(self._config.group_id), callback=on_answer)
        self._is_asked = True
        self._network.send(request, now_ms)
        return FOREVER_MS

    def handle_answer(self, response: ClientResponse) -> Exception | None:
        """Take in the answer to `ask`. Returns an error that no retry would cure, or None."""
        self._is_asked = False
        if response.version_error is not None:
            return self._fail(response.version_error)
        if not isinstance(response.body, FindCoordinatorResponse):
            self._retry("disconnected")
            return None
        # v4 and later answer for several groups; earlier versions have one answer in the body itself.
        found = response.body.coordinators[0] if response.body.coordinators else response.body
        error = error_of(found.error_code)
        if error is ErrorCode.NONE:
            self._found(Node(found.node_id, found.host, found.port), response.request.node_id)
        elif reaction_to(ApiKey.FIND_COORDINATOR, error) is Reaction.RETRY:
            self._retry(found.error_message or error.name)
        else:
            text = f"{found.error_message or error.message} Group: {self._config.group_id}"
            return self._fail(ApiError(error, text))
        return None

    def forget(self, reason: str) -> None:
        """Drop the coordinator and its connection, on which calls fail. A new search begins after a pause.

        Without the pause, a dead coordinator would be found, tried and dropped in a busy loop for as long as the other
        brokers go on naming it.
        """
        node = self.node
        if node is None:
            return
        logger.info(
            "Group coordinator %s is unavailable or invalid due to cause: %s. Rediscovery follows.", node, reason
        )
        self.node = None
        self._next_attempt_ms = self._network.now_ms() + self._config.retry_backoff_ms
        self._network.disconnect(node.id)

    def _found(self, node: Node, asked_node_id: int) -> None:
        logger.info("Discovered group coordinator %s", node)
        self.node = node
        self.reason = ""
        self._failures = 0
        # The consumer's own client has connections for fetches. This one needs only the connection to the coordinator:
        # the one to the node that was asked was opened for this question.
        if asked_node_id != node.id:
            self._network.close_connection(asked_node_id)

    def _retry(self, reason: str) -> None:
        logger.debug("Group coordinator lookup failed: %s", reason)
        self.reason = reason
        self._next_attempt_ms = self._network.now_ms() + self._backoff.after(self._failures)
        self._failures += 1

    def _fail(self, error: Exception) -> Exception:
        self._retry(str(error))
        self.is_wanted = False
        return error
