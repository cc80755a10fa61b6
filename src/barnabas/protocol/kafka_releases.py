"""The versions of each API that the releases of Apache Kafka speak, and those that Kafka 4 no longer takes (KIP-896).

Data from Kafka's message definitions. HISTORY, for `broker.emulate.version`, is read once at start; it is taken from
the kafka-clients jars of 2.8.2, 3.0.2, 3.1.2, 3.2.3, 3.3.2, 3.4.1, 3.5.2, 3.6.2, 3.7.2, 3.8.1, 3.9.2, 4.0.1, 4.1.1,
4.2.0 and 4.3.1: stable versions of the APIs of a broker, one in ZooKeeper mode up to 3.9. FIRST_CURRENT_VERSION is made
of the `deprecatedVersions` of 3.9; metrics and the request log show the clients that still send such versions.

Kafka: ApiMessageType, ApiKeys.toApiVersion.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.protocol.api_keys import ApiKey

VersionRange = tuple[int, int]

RELEASES: Final = (
    *("2.8", "3.0", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "3.9"),
    *("4.0", "4.1", "4.2", "4.3"),
)
"""In order."""

# Only changes are listed: with a full list for each of 15 releases, a mistake in one line would go unnoticed.
HISTORY: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE: "2.8 0-9, 3.7 0-10, 3.8 0-11, 4.0 3-12, 4.1 3-13",
    ApiKey.FETCH: "2.8 0-12, 3.1 0-13, 3.5 0-15, 3.7 0-16, 3.9 0-17, 4.0 4-17, 4.1 4-18",
    ApiKey.LIST_OFFSETS: "2.8 0-6, 3.0 0-7, 3.5 0-8, 3.9 0-9, 4.0 1-10, 4.2 1-11",
    ApiKey.METADATA: "2.8 0-11, 3.1 0-12, 4.0 0-13",
    ApiKey.LEADER_AND_ISR: "2.8 0-5, 3.2 0-6, 3.4 0-7, 4.0 none",
    ApiKey.STOP_REPLICA: "2.8 0-3, 3.4 0-4, 4.0 none",
    ApiKey.UPDATE_METADATA: "2.8 0-7, 3.4 0-8, 4.0 none",
    ApiKey.CONTROLLED_SHUTDOWN: "2.8 0-3, 4.0 none",
    ApiKey.OFFSET_COMMIT: "2.8 0-8, 3.7 0-9, 4.0 2-9, 4.2 2-10",
    ApiKey.OFFSET_FETCH: "2.8 0-7, 3.0 0-8, 3.7 0-9, 4.0 1-9, 4.2 1-10",
    ApiKey.FIND_COORDINATOR: "2.8 0-3, 3.0 0-4, 3.8 0-5, 3.9 0-6",
    ApiKey.JOIN_GROUP: "2.8 0-7, 3.2 0-9",
    ApiKey.HEARTBEAT: "2.8 0-4",
    ApiKey.LEAVE_GROUP: "2.8 0-4, 3.2 0-5",
    ApiKey.SYNC_GROUP: "2.8 0-5",
    ApiKey.DESCRIBE_GROUPS: "2.8 0-5, 4.0 0-6",
    ApiKey.LIST_GROUPS: "2.8 0-4, 3.8 0-5",
    ApiKey.SASL_HANDSHAKE: "2.8 0-1",
    ApiKey.API_VERSIONS: "2.8 0-3, 3.9 0-4",
    ApiKey.CREATE_TOPICS: "2.8 0-7, 4.0 2-7",
    ApiKey.DELETE_TOPICS: "2.8 0-6, 4.0 1-6",
    ApiKey.DELETE_RECORDS: "2.8 0-2",
    ApiKey.INIT_PRODUCER_ID: "2.8 0-4, 3.8 0-5",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "2.8 0-4, 4.0 2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "2.8 0-3, 3.6 0-4, 3.8 0-5",
    ApiKey.ADD_OFFSETS_TO_TXN: "2.8 0-3, 3.8 0-4",
    ApiKey.END_TXN: "2.8 0-3, 3.8 0-4, 4.0 0-5",
    ApiKey.WRITE_TXN_MARKERS: "2.8 0-1, 4.0 1-1, 4.2 1-2",
    ApiKey.TXN_OFFSET_COMMIT: "2.8 0-3, 3.8 0-4, 4.0 0-5",
    ApiKey.DESCRIBE_ACLS: "2.8 0-2, 3.3 0-3, 4.0 1-3",
    ApiKey.CREATE_ACLS: "2.8 0-2, 3.3 0-3, 4.0 1-3",
    ApiKey.DELETE_ACLS: "2.8 0-2, 3.3 0-3, 4.0 1-3",
    ApiKey.DESCRIBE_CONFIGS: "2.8 0-4, 4.0 1-4",
    ApiKey.ALTER_CONFIGS: "2.8 0-2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "2.8 0-2, 4.0 1-2",
    ApiKey.DESCRIBE_LOG_DIRS: "2.8 0-2, 3.2 0-3, 3.3 0-4, 4.0 1-4, 4.3 1-5",
    ApiKey.SASL_AUTHENTICATE: "2.8 0-2",
    ApiKey.CREATE_PARTITIONS: "2.8 0-3",
    ApiKey.CREATE_DELEGATION_TOKEN: "2.8 0-2, 3.3 0-3, 4.0 1-3",
    ApiKey.RENEW_DELEGATION_TOKEN: "2.8 0-2, 4.0 1-2",
    ApiKey.EXPIRE_DELEGATION_TOKEN: "2.8 0-2, 4.0 1-2",
    ApiKey.DESCRIBE_DELEGATION_TOKEN: "2.8 0-2, 3.3 0-3, 4.0 1-3",
    ApiKey.DELETE_GROUPS: "2.8 0-2",
    ApiKey.ELECT_LEADERS: "2.8 0-2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "2.8 0-1",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "2.8 0-0, 4.1 0-1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "2.8 0-0",
    ApiKey.OFFSET_DELETE: "2.8 0-0",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "2.8 0-1",
    ApiKey.ALTER_CLIENT_QUOTAS: "2.8 0-1",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "2.8 0-0",
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: "2.8 0-0",
    ApiKey.DESCRIBE_QUORUM: "4.0 0-2",
    ApiKey.ALTER_PARTITION: "2.8 0-0, 3.2 0-1, 3.3 0-2, 3.5 0-3, 4.0 none",
    ApiKey.UPDATE_FEATURES: "2.8 0-0, 3.3 0-1, 4.0 0-2",
    ApiKey.ENVELOPE: "3.4 0-0, 4.0 none",
    ApiKey.DESCRIBE_CLUSTER: "2.8 0-0, 3.7 0-1, 4.0 0-2",
    ApiKey.DESCRIBE_PRODUCERS: "2.8 0-0",
    ApiKey.UNREGISTER_BROKER: "4.0 0-0",
    ApiKey.DESCRIBE_TRANSACTIONS: "3.0 0-0",
    ApiKey.LIST_TRANSACTIONS: "3.0 0-0, 3.8 0-1, 4.1 0-2",
    ApiKey.ALLOCATE_PRODUCER_IDS: "3.0 0-0, 4.0 none",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "3.7 0-0, 4.0 0-1",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "3.8 0-0, 4.0 0-1",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: "4.0 0-0",
    ApiKey.PUSH_TELEMETRY: "4.0 0-0",
    ApiKey.LIST_CONFIG_RESOURCES: "4.0 0-0, 4.1 0-1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "4.0 0-0",
    ApiKey.SHARE_GROUP_HEARTBEAT: "4.1 1-1",
    ApiKey.SHARE_GROUP_DESCRIBE: "4.1 1-1",
    ApiKey.SHARE_FETCH: "4.1 1-1, 4.2 1-2",
    ApiKey.SHARE_ACKNOWLEDGE: "4.1 1-1, 4.2 1-2",
    ApiKey.ADD_RAFT_VOTER: "4.0 0-0, 4.2 0-1",
    ApiKey.REMOVE_RAFT_VOTER: "4.0 0-0",
    ApiKey.INITIALIZE_SHARE_GROUP_STATE: "4.1 0-0",
    ApiKey.READ_SHARE_GROUP_STATE: "4.1 0-0",
    ApiKey.WRITE_SHARE_GROUP_STATE: "4.1 0-0, 4.2 0-1",
    ApiKey.DELETE_SHARE_GROUP_STATE: "4.1 0-0",
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY: "4.1 0-0, 4.2 0-1",
    ApiKey.STREAMS_GROUP_HEARTBEAT: "4.2 0-0",
    ApiKey.STREAMS_GROUP_DESCRIBE: "4.2 0-0",
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: "4.1 0-0, 4.2 0-1",
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: "4.1 0-0",
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: "4.1 0-0",
}
"""Each change of an API's range, by the release that made it; `none`: the release's brokers do not have the API."""

LISTED_BESIDES: Final[Mapping[ApiKey, tuple[str, int]]] = {ApiKey.PRODUCE: ("4.0", 0)}
"""From that release on ApiVersions says that this API begins earlier than it does: librdkafka derives the known
codecs from the number (KAFKA-18659, ApiKeys.PRODUCE_API_VERSIONS_RESPONSE_MIN_VERSION)."""

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


def served_versions(release: str) -> dict[ApiKey, VersionRange]:
    """Return the lowest and highest version of every API of a release's broker. Raises ValueError for an unknown
    release."""
    position = RELEASES.index(release)
    served: dict[ApiKey, VersionRange] = {}
    for api_key, history in HISTORY.items():
        for change in history.split(", "):
            since, versions = change.split(" ")
            if RELEASES.index(since) > position:
                break
            if versions == "none":
                del served[api_key]
            else:
                lowest, highest = versions.split("-")
                served[api_key] = int(lowest), int(highest)
    return served


def listed_versions(release: str) -> dict[ApiKey, VersionRange]:
    """Return the versions that ApiVersions of that release answers. Raises ValueError for an unknown release."""
    listed = served_versions(release)
    for api_key, (since, lowest) in LISTED_BESIDES.items():
        if RELEASES.index(release) >= RELEASES.index(since):
            listed[api_key] = lowest, listed[api_key][1]
    return listed
