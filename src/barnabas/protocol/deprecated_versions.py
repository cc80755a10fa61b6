"""Versions of requests that Kafka 3.9 calls deprecated and Kafka 4 no longer takes (KIP-896).

Data only: the `deprecatedVersions` of Kafka's message definitions. Metrics and the request log show the clients that
still send them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.protocol.api_keys import ApiKey

FIRST_CURRENT_VERSION: Final[Mapping[ApiKey, int]] = {
    ApiKey.ALTER_REPLICA_LOG_DIRS: 1,
    ApiKey.CREATE_ACLS: 1,
    ApiKey.CREATE_DELEGATION_TOKEN: 1,
    ApiKey.CREATE_TOPICS: 2,
    ApiKey.DELETE_ACLS: 1,
    ApiKey.DELETE_GROUPS: 1,
    ApiKey.DELETE_TOPICS: 1,
    ApiKey.DESCRIBE_ACLS: 1,
    ApiKey.DESCRIBE_CONFIGS: 1,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: 1,
    ApiKey.DESCRIBE_LOG_DIRS: 1,
    ApiKey.EXPIRE_DELEGATION_TOKEN: 1,
    ApiKey.FETCH: 4,
    ApiKey.FIND_COORDINATOR: 1,
    ApiKey.JOIN_GROUP: 2,
    ApiKey.LIST_OFFSETS: 1,
    ApiKey.METADATA: 4,
    ApiKey.OFFSET_COMMIT: 2,
    ApiKey.OFFSET_FETCH: 1,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 2,
    ApiKey.PRODUCE: 7,
    ApiKey.RENEW_DELEGATION_TOKEN: 1,
    ApiKey.SASL_HANDSHAKE: 1,
}
"""Versions below this are deprecated; an API that is not listed has none."""
