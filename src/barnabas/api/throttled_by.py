"""The quotas that requests of each API are charged to.

Read by `Handler` when the table of APIs is made, and by `api.throttle`. Immutable.

Kafka: RequestHandlerHelper, whose send methods KafkaApis chooses between.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from barnabas.protocol.api_keys import ApiKey


class ThrottledBy(Enum):
    """The kind of quota a request is charged to, and may have its connection muted for."""

    REQUEST = "the time it took"
    """Kafka: sendResponseMaybeThrottle."""
    NOTHING = "nothing"
    """Between brokers: the time is counted apart. Kafka: sendResponseExemptThrottle."""
    PRODUCE = "its bytes, and the time it took"
    FETCH = "the bytes of its answer, and the time it took; nothing if a follower asks"
    CONTROLLER_MUTATION = "partitions created and deleted, and the time it took"
    CREATION = "the time it took; partitions created on the way are counted, but do not delay the client"


THROTTLED_BY: Final[Mapping[ApiKey, ThrottledBy]] = {
    ApiKey.PRODUCE: ThrottledBy.PRODUCE,
    ApiKey.FETCH: ThrottledBy.FETCH,
    ApiKey.CREATE_TOPICS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.CREATE_PARTITIONS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.DELETE_TOPICS: ThrottledBy.CONTROLLER_MUTATION,
    ApiKey.METADATA: ThrottledBy.CREATION,
    ApiKey.FIND_COORDINATOR: ThrottledBy.CREATION,
    ApiKey.LEADER_AND_ISR: ThrottledBy.NOTHING,
    ApiKey.STOP_REPLICA: ThrottledBy.NOTHING,
    ApiKey.UPDATE_METADATA: ThrottledBy.NOTHING,
    ApiKey.CONTROLLED_SHUTDOWN: ThrottledBy.NOTHING,
    ApiKey.ALTER_PARTITION: ThrottledBy.NOTHING,
    ApiKey.WRITE_TXN_MARKERS: ThrottledBy.NOTHING,
}
"""The APIs whose requests are charged for more, or less, than their time. By key, so that no handler's line can
forget it."""
