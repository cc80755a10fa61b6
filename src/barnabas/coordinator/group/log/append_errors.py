"""The errors that members of groups get for the errors of `__consumer_offsets`, by the kind of the records.

Read by the services of this package, which hand one to each append of `runtime.log`. Constants.

Kafka: GroupMetadataManager.storeGroup, storeOffsets; for consumer groups CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from typing import Final

from barnabas.coordinator.runtime.log import ErrorTranslation
from barnabas.protocol.errors import ErrorCode

# Clients of a group know few errors. NOT_COORDINATOR and COORDINATOR_NOT_AVAILABLE make them find the coordinator
# again; the log's own errors would end them.
_ALWAYS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}
_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE)


# After a timeout a commit is repeated as it is. A classic member joins again, since its assignment may not be stored. A
# member of a consumer group looks for the coordinator, and repeats its heartbeat.
OFFSETS: Final[ErrorTranslation] = (
    _ALWAYS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
    # Of a coordinator of transactions that was asked: the producer repeats the commit, and looks for no other one.
    | {ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
CLASSIC_GROUP: Final[ErrorTranslation] = (
    _ALWAYS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.REBALANCE_IN_PROGRESS}
)
CONSUMER_GROUP: Final[ErrorTranslation] = (
    _ALWAYS
    | dict.fromkeys(_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR)
    | {ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE}
)


def commit_error(code: ErrorCode) -> ErrorCode:
    """Return the error of a commit of offsets for its client, where the log or a coordinator says `code`."""
    return OFFSETS.get(code, code)
