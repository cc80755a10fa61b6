"""The module of each API's messages, and the first flexible version of each API.

Data, one line an API, so that headers can be read without importing any family. Read by every thread; the families
themselves are imported on first use, under the interpreter's import lock. A test compares the table with the classes.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Final, NamedTuple

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message import Message


class MessageEntry(NamedTuple):
    """The place of an API's messages."""

    family: str
    """Module under `messages/`."""
    name: str
    """The beginning of the class names, before `Request` and `Response`."""
    flexible_from: int | None
    """First flexible version; None if there is none."""


MESSAGES: Final[dict[ApiKey, MessageEntry]] = {
    ApiKey.PRODUCE: MessageEntry("produce", "Produce", 9),
    ApiKey.FETCH: MessageEntry("fetch", "Fetch", 12),
    ApiKey.LIST_OFFSETS: MessageEntry("list_offsets", "ListOffsets", 6),
    ApiKey.METADATA: MessageEntry("metadata", "Metadata", 9),
    ApiKey.LEADER_AND_ISR: MessageEntry("inter_broker", "LeaderAndIsr", 4),
    ApiKey.STOP_REPLICA: MessageEntry("inter_broker", "StopReplica", 2),
    ApiKey.UPDATE_METADATA: MessageEntry("inter_broker", "UpdateMetadata", 6),
    ApiKey.CONTROLLED_SHUTDOWN: MessageEntry("inter_broker", "ControlledShutdown", 3),
    ApiKey.OFFSET_COMMIT: MessageEntry("offsets", "OffsetCommit", 8),
    ApiKey.OFFSET_FETCH: MessageEntry("offsets", "OffsetFetch", 6),
    ApiKey.FIND_COORDINATOR: MessageEntry("find_coordinator", "FindCoordinator", 3),
    ApiKey.JOIN_GROUP: MessageEntry("classic_groups", "JoinGroup", 6),
    ApiKey.HEARTBEAT: MessageEntry("classic_groups", "Heartbeat", 4),
    ApiKey.LEAVE_GROUP: MessageEntry("classic_groups", "LeaveGroup", 4),
    ApiKey.SYNC_GROUP: MessageEntry("classic_groups", "SyncGroup", 4),
    ApiKey.DESCRIBE_GROUPS: MessageEntry("group_admin", "DescribeGroups", 5),
    ApiKey.LIST_GROUPS: MessageEntry("group_admin", "ListGroups", 3),
    ApiKey.SASL_HANDSHAKE: MessageEntry("sasl", "SaslHandshake", None),
    ApiKey.API_VERSIONS: MessageEntry("api_versions", "ApiVersions", 3),
    ApiKey.CREATE_TOPICS: MessageEntry("topics", "CreateTopics", 5),
    ApiKey.DELETE_TOPICS: MessageEntry("topics", "DeleteTopics", 4),
    ApiKey.DELETE_RECORDS: MessageEntry("topics", "DeleteRecords", 2),
    ApiKey.INIT_PRODUCER_ID: MessageEntry("transactions", "InitProducerId", 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: MessageEntry("list_offsets", "OffsetForLeaderEpoch", 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: MessageEntry("transactions", "AddPartitionsToTxn", 3),
    ApiKey.ADD_OFFSETS_TO_TXN: MessageEntry("transactions", "AddOffsetsToTxn", 3),
    ApiKey.END_TXN: MessageEntry("transactions", "EndTxn", 3),
    ApiKey.WRITE_TXN_MARKERS: MessageEntry("inter_broker", "WriteTxnMarkers", 1),
    ApiKey.TXN_OFFSET_COMMIT: MessageEntry("transactions", "TxnOffsetCommit", 3),
    ApiKey.DESCRIBE_ACLS: MessageEntry("acls", "DescribeAcls", 2),
    ApiKey.CREATE_ACLS: MessageEntry("acls", "CreateAcls", 2),
    ApiKey.DELETE_ACLS: MessageEntry("acls", "DeleteAcls", 2),
    ApiKey.DESCRIBE_CONFIGS: MessageEntry("configs", "DescribeConfigs", 4),
    ApiKey.ALTER_CONFIGS: MessageEntry("configs", "AlterConfigs", 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: MessageEntry("log_dirs", "AlterReplicaLogDirs", 2),
    ApiKey.DESCRIBE_LOG_DIRS: MessageEntry("log_dirs", "DescribeLogDirs", 2),
    ApiKey.SASL_AUTHENTICATE: MessageEntry("sasl", "SaslAuthenticate", 2),
    ApiKey.CREATE_PARTITIONS: MessageEntry("topics", "CreatePartitions", 2),
    ApiKey.CREATE_DELEGATION_TOKEN: MessageEntry("tokens", "CreateDelegationToken", 2),
    ApiKey.RENEW_DELEGATION_TOKEN: MessageEntry("tokens", "RenewDelegationToken", 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: MessageEntry("tokens", "ExpireDelegationToken", 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: MessageEntry("tokens", "DescribeDelegationToken", 2),
    ApiKey.DELETE_GROUPS: MessageEntry("group_admin", "DeleteGroups", 2),
    ApiKey.ELECT_LEADERS: MessageEntry("topics", "ElectLeaders", 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: MessageEntry("configs", "IncrementalAlterConfigs", 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: MessageEntry("reassignments", "AlterPartitionReassignments", 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: MessageEntry("reassignments", "ListPartitionReassignments", 0),
    ApiKey.OFFSET_DELETE: MessageEntry("offsets", "OffsetDelete", None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: MessageEntry("quotas", "DescribeClientQuotas", 1),
    ApiKey.ALTER_CLIENT_QUOTAS: MessageEntry("quotas", "AlterClientQuotas", 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: MessageEntry("quotas", "DescribeUserScramCredentials", 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: MessageEntry("quotas", "AlterUserScramCredentials", 0),
    ApiKey.ALTER_PARTITION: MessageEntry("inter_broker", "AlterPartition", 0),
    ApiKey.UPDATE_FEATURES: MessageEntry("inter_broker", "UpdateFeatures", 0),
    ApiKey.DESCRIBE_CLUSTER: MessageEntry("cluster", "DescribeCluster", 0),
    ApiKey.DESCRIBE_PRODUCERS: MessageEntry("transactions", "DescribeProducers", 0),
    ApiKey.UNREGISTER_BROKER: MessageEntry("cluster", "UnregisterBroker", 0),
    ApiKey.DESCRIBE_TRANSACTIONS: MessageEntry("transactions", "DescribeTransactions", 0),
    ApiKey.LIST_TRANSACTIONS: MessageEntry("transactions", "ListTransactions", 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: MessageEntry("inter_broker", "AllocateProducerIds", 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: MessageEntry("consumer_groups", "ConsumerGroupHeartbeat", 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: MessageEntry("consumer_groups", "ConsumerGroupDescribe", 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: MessageEntry("telemetry", "GetTelemetrySubscriptions", 0),
    ApiKey.PUSH_TELEMETRY: MessageEntry("telemetry", "PushTelemetry", 0),
    ApiKey.LIST_CONFIG_RESOURCES: MessageEntry("configs", "ListConfigResources", 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: MessageEntry("metadata", "DescribeTopicPartitions", 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: MessageEntry("share_groups", "ShareGroupHeartbeat", 0),
    ApiKey.SHARE_GROUP_DESCRIBE: MessageEntry("share_groups", "ShareGroupDescribe", 0),
    ApiKey.SHARE_FETCH: MessageEntry("share_groups", "ShareFetch", 0),
    ApiKey.SHARE_ACKNOWLEDGE: MessageEntry("share_groups", "ShareAcknowledge", 0),
}


def request_class(api_key: int) -> type[Message]:
    """Return the request of an API. Raises KeyError for a key without messages."""
    return _load(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    """Return the response of an API. Raises KeyError for a key without messages."""
    return _load(api_key, "Response")


# Imported when first asked for: a client that produces needs a few families only, and the others would slow its start.
@functools.cache
def _load(api_key: int, kind: str) -> type[Message]:
    entry = MESSAGES[api_key]  # type: ignore[index]
    module: Any = importlib.import_module(f"barnabas.protocol.messages.{entry.family}")
    found: type[Message] = getattr(module, entry.name + kind)
    return found
