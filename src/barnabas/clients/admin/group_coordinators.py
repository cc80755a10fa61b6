"""Finds the coordinators of groups or of transactional ids, sends them requests, and retries errors that may pass.

Called by the admin client, on the thread that owns the BlockingClient.
Kafka: CoordinatorStrategy, AdminApiDriver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar, cast

from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.errors import Disconnected
from barnabas.protocol.errors import ApiError, ErrorCode, error_of
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from barnabas.protocol.messages.message import Message
from barnabas.rpc.client_request import UnsupportedVersion
from barnabas.rpc.connection_states import Node

PASSING_ERRORS = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        # Of transactional ids alone: the previous transaction is still being ended.
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""The errors of coordinators that may be gone at a retry, or at another broker."""

GROUP = 0
TRANSACTION = 1
"""The types of keys that have coordinators."""
_KINDS = ("Group", "Transactional id")
# FindCoordinator v4 looks up several keys in one request (KIP-699).
_BATCHED_VERSIONS = (4, FindCoordinatorRequest.max_version)
_SINGLE_VERSIONS = (1, 3)

A = TypeVar("A", bound=Message)
R = TypeVar("R")


class CoordinatedIds(NamedTuple):
    """Groups, or with `key_type` TRANSACTION transactional ids."""

    ids: Collection[str]
    key_type: int = GROUP


def ask_coordinators(
    client: BlockingClient,
    wanted: CoordinatedIds,
    request_for: Callable[[Sequence[str]], Message],
    results_in: Callable[[A], Iterable[tuple[str, int, R]]],
    deadline_ms: int,
    *,
    versions: tuple[int, int] | None = None,
) -> dict[str, tuple[Node, R]]:
    """Return every id's coordinator and result, with one request to each coordinator.

    results_in(answer): yields id, error code and result. Groups with `PASSING_ERRORS`, or whose coordinator does not
    take the connection, are retried until the deadline; all other errors are left to the caller. Raises ApiError when
    such an error is still there at the deadline, or when a coordinator cannot be found; Disconnected, ClientTimeout.
    """
    client.check_usable()
    found: dict[str, tuple[Node, R]] = {}
    missing = list(dict.fromkeys(wanted.ids))
    while missing:
        by_coordinator, last_error = _by_coordinator(client, missing, deadline_ms, wanted.key_type)
        for node, groups in by_coordinator.items():
            try:
                answer = client.call_node(node, request_for(groups), versions=versions, deadline_ms=deadline_ms)
            except Disconnected as lost:
                last_error = lost
                continue  # the coordinator is looked up again
            for group_id, code, result in results_in(cast("A", answer)):
                if code in PASSING_ERRORS:
                    last_error = ApiError(error_of(code))
                else:
                    found[group_id] = (node, result)
        missing = [group_id for group_id in missing if group_id not in found]
        if missing:
            if client.now_ms() >= deadline_ms:
                raise last_error or client.metadata.timeout("The coordinators did not answer in time")
            client.pause_for_metadata(deadline_ms)
    return found


def _by_coordinator(
    client: BlockingClient, group_ids: list[str], deadline_ms: int, key_type: int
) -> tuple[dict[Node, list[str]], ApiError | Disconnected | None]:
    """Return groups by coordinator, and an error of those without a coordinator, which are left out.

    Raises ApiError for an error that no retry cures.
    """
    by_coordinator: dict[Node, list[str]] = {}
    last_error: ApiError | Disconnected | None = None
    for each in _find(client, group_ids, deadline_ms, key_type):
        error = error_of(each.error_code)
        if error is ErrorCode.NONE:
            by_coordinator.setdefault(Node(each.node_id, each.host, each.port), []).append(each.key)
        elif error in PASSING_ERRORS:
            # The broker says why there is no coordinator.
            last_error = ApiError(error, each.error_message or None)
        else:
            raise ApiError(error, f"{each.error_message or error.message} {_KINDS[key_type]}: {each.key}")
    return by_coordinator, last_error


def _find(
    client: BlockingClient, group_ids: list[str], deadline_ms: int, key_type: int
) -> Iterator[FindCoordinatorResponse.Coordinator]:
    """Return any broker's answers: one for all groups, or one for each group from brokers before Kafka 3.0."""
    try:
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=group_ids)
        answer = client.call(request, versions=_BATCHED_VERSIONS, deadline_ms=deadline_ms)
    except UnsupportedVersion:
        for group_id in group_ids:
            single = FindCoordinatorRequest(key=group_id, key_type=key_type)
            answer = client.call(single, versions=_SINGLE_VERSIONS, deadline_ms=deadline_ms)
            assert isinstance(answer, FindCoordinatorResponse)
            yield FindCoordinatorResponse.Coordinator(
                group_id, answer.node_id, answer.host, answer.port, answer.error_code, answer.error_message
            )
        return
    assert isinstance(answer, FindCoordinatorResponse)
    yield from answer.coordinators
