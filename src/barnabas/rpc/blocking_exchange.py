"""One request to one node, and the wait for its answer, for threads that do nothing else meanwhile.

Called by the thread that owns the NetworkClient (a controller's channel, a broker that is stopping). Another thread
ends a wait by making `is_running` false and calling `NetworkClient.wakeup`. No state, no lock.

Kafka: org.apache.kafka.clients.NetworkClientUtils.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import ClientRequest, ClientResponse
from barnabas.rpc.network_client import NetworkClient
from barnabas.rpc.node import Node

# Bounds how late a wait notices that `is_running` became false, should the wake-up be missing.
_LONGEST_POLL_MS = 1_000


class ConnectionLost(Exception):
    """The error of a request without an answer: no connection, a lost one, a node that is too slow, an ended wait."""


def await_ready(
    client: NetworkClient, node: Node, timeout_ms: int, is_running: Callable[[], bool], *, trusted_ms: int = -1
) -> None:
    """Wait until a request can be sent to the node. Connects if need be.

    trusted_ms: how long ago the last poll may have looked at the connection; by default it is looked at in any case.

    Raises ConnectionLost: an attempt to connect failed, `timeout_ms` are over, or `is_running` became false. Raises
    ValueError: `timeout_ms` is negative.
    """
    if timeout_ms < 0:
        raise ValueError("Timeout needs to be greater than 0")
    now_ms = client.now_ms()
    deadline_ms = now_ms + timeout_ms
    if now_ms - client.polled_ms > trusted_ms:
        # The node may have closed the connection since the last request; only a poll notices.
        client.poll(0, now_ms)
    was_tried = False
    while is_running():
        now_ms = client.now_ms()
        # A client without a backoff may retry at once, and would do so as fast as the node rejects it.
        if was_tried and client.can_connect(node.id, now_ms):
            raise ConnectionLost(f"Connection to {node} failed.")
        if client.ready(node, now_ms):
            return
        if client.connection_failed(node, now_ms):
            raise ConnectionLost(f"Connection to {node} failed.")
        was_tried = True
        if now_ms >= deadline_ms:
            raise ConnectionLost(f"Failed to connect within {timeout_ms} ms")
        client.poll(min(deadline_ms - now_ms, _LONGEST_POLL_MS), now_ms)
    raise ConnectionLost(f"Client for {node} was shut down before it was connected.")


def send_and_receive(client: NetworkClient, request: ClientRequest, is_running: Callable[[], bool]) -> Message:
    """Send to a node that is ready, and return the body of its answer.

    Raises ConnectionLost: the connection broke or timed out, or `is_running` became false. Raises UnsupportedVersion:
    the node does not have the API in a version of this request.
    """
    body = send_and_await(client, request, is_running).body
    assert body is not None
    return body


def send_and_await(client: NetworkClient, request: ClientRequest, is_running: Callable[[], bool]) -> ClientResponse:
    """Send to a node that is ready, and wait for the answer as long as the request's timeout allows.

    Returns an answer that has a body. Raises as `send_and_receive`.
    """
    answers: list[ClientResponse] = []
    request.callback = answers.append
    client.send(request, client.now_ms())
    while not answers and is_running():
        client.poll(_LONGEST_POLL_MS, client.now_ms(), ends_with_send=not request.expects_response)
    if not answers:
        raise ConnectionLost("Client was shutdown before response was read")
    # Taken out: request, callback, list and answer would be a cycle that keeps the answer's buffer until a collection.
    response = answers.pop()
    if response.version_error is not None:
        raise response.version_error
    if response.body is None:
        raise ConnectionLost(f"Connection to {request.node_id} was disconnected before the response was read")
    return response
