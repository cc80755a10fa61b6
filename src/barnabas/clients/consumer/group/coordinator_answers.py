"""The member's reaction to each error of its coordinator, as one table. Pure.

Used under the coordinator channel's lock. Kafka: AbstractCoordinator, ConsumerCoordinator (their response handlers).
"""

from __future__ import annotations

from enum import Enum

from barnabas.clients.errors import Disconnected
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode


class Reaction(Enum):
    """The reaction of a member to an answer. All but ACCEPT and IGNORE make the call fail."""

    ACCEPT = "go on"
    IGNORE = "do nothing"
    RETRY = "retry after a backoff"
    REDISCOVER = "look for the coordinator again, then retry"
    FORGET_MEMBER = "join again as a new member, unless this was done since the request was sent"
    FORGET_GENERATION = "join again under the same member id, unless this was done since the request was sent"
    TAKE_MEMBER_ID = "join again with the id that came with the error"
    REJOIN = "join again"
    REPORT = "tell the user, and retry after a backoff"
    FAIL = "tell the user"


_COORDINATOR_GONE = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.REDISCOVER,
    ErrorCode.NOT_COORDINATOR: Reaction.REDISCOVER,
}
_MEMBER_GONE = {
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
    ErrorCode.ILLEGAL_GENERATION: Reaction.FORGET_GENERATION,
}

REACTIONS: dict[ApiKey, dict[ErrorCode, Reaction]] = {
    ApiKey.FIND_COORDINATOR: {
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.RETRY,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    },
    ApiKey.JOIN_GROUP: _COORDINATOR_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_MEMBER,
        # The coordinator gives a new member its id and has it join again with that id, so that members that never come
        # back leave no trace (KIP-394).
        ErrorCode.MEMBER_ID_REQUIRED: Reaction.TAKE_MEMBER_ID,
    },
    ApiKey.SYNC_GROUP: _COORDINATOR_GONE
    | _MEMBER_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    },
    ApiKey.HEARTBEAT: _COORDINATOR_GONE
    | _MEMBER_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    },
    # Only what is listed here lets the member go on: every other error makes it FATAL.
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _COORDINATOR_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.FORGET_GENERATION,
        ErrorCode.FENCED_MEMBER_EPOCH: Reaction.FORGET_GENERATION,
        # The group was deleted; the member creates it when it joins again.
        ErrorCode.GROUP_ID_NOT_FOUND: Reaction.FORGET_GENERATION,
        # The member stays one: an administrator may grant the permission.
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Reaction.REPORT,
    },
    # A member that leaves reacts to no error: its session at the coordinator ends in any case.
    ApiKey.LEAVE_GROUP: {},
    ApiKey.OFFSET_COMMIT: _COORDINATOR_GONE
    | _MEMBER_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
        # The coordinator could not replicate the commit in time. It may be losing its leadership, so it is looked up
        # again.
        ErrorCode.REQUEST_TIMED_OUT: Reaction.REDISCOVER,
        ErrorCode.REBALANCE_IN_PROGRESS: Reaction.REJOIN,
    },
    ApiKey.OFFSET_FETCH: _COORDINATOR_GONE
    | {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
        # A transaction still holds offsets that it may commit: a read now would return the older ones (KIP-447).
        ErrorCode.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
    },
}
"""Reactions by API and error. Errors that are not listed are FAIL."""


def reaction_to(api_key: ApiKey, error: ErrorCode) -> Reaction:
    """Return the reaction to an answer of this API."""
    if error is ErrorCode.NONE:
        return Reaction.ACCEPT
    return REACTIONS[api_key].get(error, Reaction.FAIL)


def is_retriable(error: Exception) -> bool:
    """Return whether a failed call may be retried, with the same coordinator or another one."""
    if isinstance(error, ApiError):
        # The coordinator has given the member a new epoch since the request was made: the retry carries it (KIP-848).
        return error.code.retriable or error.code is ErrorCode.STALE_MEMBER_EPOCH
    return isinstance(error, Disconnected | TimeoutError)


def is_about_membership(error: Exception) -> bool:
    """Return whether the coordinator did not know the member that sent the request.

    The next answer to a heartbeat says so too, and makes the member join again.
    """
    return isinstance(error, ApiError) and error.code is ErrorCode.UNKNOWN_MEMBER_ID
