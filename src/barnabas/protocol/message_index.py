"""The module of each API's messages, their versions, and the first flexible version of each API.

Data, one line an API, so that headers can be read and versions listed without importing any family. Read by every
thread; the families themselves are imported on first use, under the interpreter's import lock. A test compares the
table with the classes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.decoder_source import DecoderBound
from barnabas.protocol.messages.message import Message


class MessageEntry(NamedTuple):
    """The place of an API's messages."""

    family: str
    """Module under `messages/`."""
    name: str
    """The beginning of the class names, before `Request` and `Response`."""
    versions: tuple[int, int]
    """First and last, of the request."""
    flexible_from: int | None
    """First flexible version; None if there is none."""


MESSAGES: Final[dict[ApiKey, MessageEntry]] = {
    ApiKey.PRODUCE: MessageEntry("produce", "Produce", (0, 13), 9),
    ApiKey.FETCH: MessageEntry("fetch", "Fetch", (0, 18), 12),
    ApiKey.LIST_OFFSETS: MessageEntry("list_offsets", "ListOffsets", (0, 11), 6),
    ApiKey.METADATA: MessageEntry("metadata", "Metadata", (0, 13), 9),
    ApiKey.LEADER_AND_ISR: MessageEntry("inter_broker", "LeaderAndIsr", (0, 7), 4),
    ApiKey.STOP_REPLICA: MessageEntry("inter_broker", "StopReplica", (0, 4), 2),
    ApiKey.UPDATE_METADATA: MessageEntry("inter_broker", "UpdateMetadata", (0, 8), 6),
    ApiKey.CONTROLLED_SHUTDOWN: MessageEntry("inter_broker", "ControlledShutdown", (0, 3), 3),
    ApiKey.OFFSET_COMMIT: MessageEntry("offsets", "OffsetCommit", (0, 10), 8),
    ApiKey.OFFSET_FETCH: MessageEntry("offsets", "OffsetFetch", (0, 10), 6),
    ApiKey.FIND_COORDINATOR: MessageEntry("find_coordinator", "FindCoordinator", (0, 6), 3),
    ApiKey.JOIN_GROUP: MessageEntry("classic_groups", "JoinGroup", (0, 9), 6),
    ApiKey.HEARTBEAT: MessageEntry("classic_groups", "Heartbeat", (0, 4), 4),
    ApiKey.LEAVE_GROUP: MessageEntry("classic_groups", "LeaveGroup", (0, 5), 4),
    ApiKey.SYNC_GROUP: MessageEntry("classic_groups", "SyncGroup", (0, 5), 4),
    ApiKey.DESCRIBE_GROUPS: MessageEntry("group_admin", "DescribeGroups", (0, 6), 5),
    ApiKey.LIST_GROUPS: MessageEntry("group_admin", "ListGroups", (0, 5), 3),
    ApiKey.SASL_HANDSHAKE: MessageEntry("sasl", "SaslHandshake", (0, 1), None),
    ApiKey.API_VERSIONS: MessageEntry("api_versions", "ApiVersions", (0, 4), 3),
    ApiKey.CREATE_TOPICS: MessageEntry("topics", "CreateTopics", (0, 7), 5),
    ApiKey.DELETE_TOPICS: MessageEntry("topics", "DeleteTopics", (0, 6), 4),
    ApiKey.DELETE_RECORDS: MessageEntry("topics", "DeleteRecords", (0, 2), 2),
    ApiKey.INIT_PRODUCER_ID: MessageEntry("transactions", "InitProducerId", (0, 6), 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: MessageEntry("list_offsets", "OffsetForLeaderEpoch", (0, 4), 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: MessageEntry("transactions", "AddPartitionsToTxn", (0, 5), 3),
    ApiKey.ADD_OFFSETS_TO_TXN: MessageEntry("transactions", "AddOffsetsToTxn", (0, 4), 3),
    ApiKey.END_TXN: MessageEntry("transactions", "EndTxn", (0, 5), 3),
    ApiKey.WRITE_TXN_MARKERS: MessageEntry("inter_broker", "WriteTxnMarkers", (0, 2), 1),
    ApiKey.TXN_OFFSET_COMMIT: MessageEntry("transactions", "TxnOffsetCommit", (0, 5), 3),
    ApiKey.DESCRIBE_ACLS: MessageEntry("acls", "DescribeAcls", (0, 3), 2),
    ApiKey.CREATE_ACLS: MessageEntry("acls", "CreateAcls", (0, 3), 2),
    ApiKey.DELETE_ACLS: MessageEntry("acls", "DeleteAcls", (0, 3), 2),
    ApiKey.DESCRIBE_CONFIGS: MessageEntry("configs", "DescribeConfigs", (0, 4), 4),
    ApiKey.ALTER_CONFIGS: MessageEntry("configs", "AlterConfigs", (0, 2), 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: MessageEntry("log_dirs", "AlterReplicaLogDirs", (0, 2), 2),
    ApiKey.DESCRIBE_LOG_DIRS: MessageEntry("log_dirs", "DescribeLogDirs", (0, 5), 2),
    ApiKey.SASL_AUTHENTICATE: MessageEntry("sasl", "SaslAuthenticate", (0, 2), 2),
    ApiKey.CREATE_PARTITIONS: MessageEntry("topics", "CreatePartitions", (0, 3), 2),
    ApiKey.CREATE_DELEGATION_TOKEN: MessageEntry("tokens", "CreateDelegationToken", (0, 3), 2),
    ApiKey.RENEW_DELEGATION_TOKEN: MessageEntry("tokens", "RenewDelegationToken", (0, 2), 2),
    ApiKey.EXPIRE_DELEGATION_TOKEN: MessageEntry("tokens", "ExpireDelegationToken", (0, 2), 2),
    ApiKey.DESCRIBE_DELEGATION_TOKEN: MessageEntry("tokens", "DescribeDelegationToken", (0, 3), 2),
    ApiKey.DELETE_GROUPS: MessageEntry("group_admin", "DeleteGroups", (0, 2), 2),
    ApiKey.ELECT_LEADERS: MessageEntry("topics", "ElectLeaders", (0, 2), 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: MessageEntry("configs", "IncrementalAlterConfigs", (0, 1), 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: MessageEntry("reassignments", "AlterPartitionReassignments", (0, 1), 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: MessageEntry("reassignments", "ListPartitionReassignments", (0, 0), 0),
    ApiKey.OFFSET_DELETE: MessageEntry("offsets", "OffsetDelete", (0, 0), None),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: MessageEntry("quotas", "DescribeClientQuotas", (0, 1), 1),
    ApiKey.ALTER_CLIENT_QUOTAS: MessageEntry("quotas", "AlterClientQuotas", (0, 1), 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: MessageEntry("quotas", "DescribeUserScramCredentials", (0, 0), 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: MessageEntry("quotas", "AlterUserScramCredentials", (0, 0), 0),
    ApiKey.ALTER_PARTITION: MessageEntry("inter_broker", "AlterPartition", (0, 3), 0),
    ApiKey.UPDATE_FEATURES: MessageEntry("inter_broker", "UpdateFeatures", (0, 2), 0),
    ApiKey.DESCRIBE_CLUSTER: MessageEntry("cluster", "DescribeCluster", (0, 2), 0),
    ApiKey.DESCRIBE_PRODUCERS: MessageEntry("transactions", "DescribeProducers", (0, 0), 0),
    ApiKey.UNREGISTER_BROKER: MessageEntry("cluster", "UnregisterBroker", (0, 0), 0),
    ApiKey.DESCRIBE_TRANSACTIONS: MessageEntry("transactions", "DescribeTransactions", (0, 0), 0),
    ApiKey.LIST_TRANSACTIONS: MessageEntry("transactions", "ListTransactions", (0, 2), 0),
    ApiKey.ALLOCATE_PRODUCER_IDS: MessageEntry("inter_broker", "AllocateProducerIds", (0, 0), 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: MessageEntry("consumer_groups", "ConsumerGroupHeartbeat", (0, 1), 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: MessageEntry("consumer_groups", "ConsumerGroupDescribe", (0, 1), 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: MessageEntry("telemetry", "GetTelemetrySubscriptions", (0, 0), 0),
    ApiKey.PUSH_TELEMETRY: MessageEntry("telemetry", "PushTelemetry", (0, 0), 0),
    ApiKey.LIST_CONFIG_RESOURCES: MessageEntry("configs", "ListConfigResources", (0, 1), 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: MessageEntry("metadata", "DescribeTopicPartitions", (0, 0), 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: MessageEntry("share_groups", "ShareGroupHeartbeat", (1, 1), 0),
    ApiKey.SHARE_GROUP_DESCRIBE: MessageEntry("share_groups", "ShareGroupDescribe", (1, 1), 0),
    ApiKey.SHARE_FETCH: MessageEntry("share_groups", "ShareFetch", (1, 2), 0),
    ApiKey.SHARE_ACKNOWLEDGE: MessageEntry("share_groups", "ShareAcknowledge", (1, 2), 0),
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


class RequestDecoders(dict[int, Callable[..., Any]]):
    """The decoder of each version of an API's requests: `(buffer, offset) -> (message, end offset)`.

    A dictionary, since every request looks its decoder up. A missing one comes from the message, whose module may be
    imported for it.
    """

    __slots__ = ("_api_key", "_bound")

    def __init__(self, api_key: ApiKey, bound: DecoderBound) -> None:
        super().__init__()
        self._api_key, self._bound = api_key, bound

    def __missing__(self, version: int) -> Callable[..., Any]:
        decoder = self[version] = request_class(self._api_key).decoders.bounded(self._bound)[version]
        return decoder
