"""A description of each metric: the help text of `/metrics`, and the table of docs/metrics.md.

Data and one look-up. A test compares the descriptions with the metrics of a running broker.
"""

from __future__ import annotations

from typing import Final

from barnabas.metrics.metrics_registry import MBeanName

_BY_KIND: Final[dict[str, dict[str, str]]] = {
    "RequestPath": {"RequestsPerSec": "Requests by the way they took: a queue, or at once on the network thread"},
    "RequestMetrics": {
        "RequestsPerSec": "Requests by API and version",
        "DeprecatedRequestsPerSec": "Requests of a version that Kafka 4 no longer takes, by client software",
        "ErrorsPerSec": "Errors in answers, NONE among them; a request may have several",
        "RequestQueueTimeMs": "Until a request handler took the request; 0 where it was run at once",
        "LocalTimeMs": "While the request was handled",
        "RemoteTimeMs": "Until others let it complete: replicas, or records to fetch",
        "ThrottleTimeMs": "How long quotas held its client up",
        "ResponseQueueTimeMs": "Until the network thread took the answer",
        "ResponseSendTimeMs": "Until the answer's last byte had left",
        "TotalTimeMs": "From the request's last byte to the answer's",
        "RequestBytes": "Size of the request",
        "ResponseBytes": "Size of the answer (ours)",
        "MessageConversionsTimeMs": "Converting records between formats of different age",
        "TemporaryMemoryBytes": "Memory that took, beyond the request",
    },
    "RequestChannel": {
        "RequestQueueSize": "Requests that wait for a handler",
        "ResponseQueueSize": "Answers that wait for a network thread",
    },
    "SocketServer": {
        "NetworkProcessorAvgIdlePercent": "Share of time that network threads wait, 0 to 1, over half a minute",
        "MemoryPoolAvailable": "Bytes left of queued.max.request.bytes",
        "MemoryPoolUsed": "Bytes of queued.max.request.bytes in use",
        "ExpiredConnectionsKilledCount": "Connections closed because their session had ended",
    },
    "Processor": {"IdlePercent": "Share of time that this network thread waits, 0 to 1, over half a minute"},
    "Acceptor": {"AcceptorBlockedPercent": "Share of time that a listener's acceptor waits for room or for quotas"},
    "KafkaRequestHandlerPool": {"RequestHandlerAvgIdlePercent": "Share of time that request handlers wait, 0 to 1"},
    "app-info": {
        "version": "The version, in the label `value`",
        "commit-id": "The commit, in the label `value`; unknown for an installed package",
        "start-time-ms": "The time of the start, in milliseconds since 1970",
    },
    "MetadataLoader": {"CurrentControllerId": "The broker that is the controller; -1 while there is none"},
    "SessionExpireListener": {
        "ZooKeeperSyncConnectsPerSec": "Connections made to ZooKeeper",
        "ZooKeeperDisconnectsPerSec": "Connections to ZooKeeper lost",
        "ZooKeeperExpiresPerSec": "Sessions with ZooKeeper expired",
        "ZooKeeperAuthFailuresPerSec": "Logins to ZooKeeper refused",
        "ZooKeeperReadOnlyConnectsPerSec": "Connections made to a ZooKeeper that is read-only",
        "ZooKeeperSaslAuthenticationsPerSec": "Logins to ZooKeeper",
        "SessionState": "The state of the session, in the label `value`",
    },
    "ZooKeeperClientMetrics": {"ZooKeeperRequestLatencyMs": "From a request to ZooKeeper to its answer"},
    "KafkaServer": {
        "ClusterId": "The cluster's id, in the label `value`",
        "BrokerState": "0 not running, 1 starting, 2 recovering logs, 3 running, 6 handing over, 7 shutting down",
        "linux-disk-read-bytes": "Bytes this process has had read from disks",
        "linux-disk-write-bytes": "Bytes this process has had written to disks",
    },
    "socket-server-metrics": {
        "connections": "Open connections by client software (KIP-511)",
        "connection-count": "Open connections",
        "connection-creation": "Connections accepted",
        "connection-close": "Connections closed",
        "successful-authentication": "Connections that authenticated",
        "failed-authentication": "Connections that did not",
        "successful-reauthentication": "Logins on live connections (KIP-368)",
        "failed-reauthentication": "Logins on live connections that failed",
        "successful-authentication-no-reauth": "Logins by SASL of clients that cannot log in again",
        "reauthentication-latency-avg": "Mean milliseconds of a login on a live connection",
        "reauthentication-latency-max": "Milliseconds of the longest login on a live connection",
        "expired-connections-killed-count": "Connections closed because their session had ended",
        "incoming-byte": "Bytes received",
        "outgoing-byte": "Bytes sent",
        "request": "Answers sent; Kafka's Selector, also the clients', calls them requests",
        "request-size-avg": "Mean bytes of an answer, over half a minute",
        "request-size-max": "Bytes of the largest answer since the start",
        "response": "Requests received; Kafka's Selector calls them responses",
        "network-io": "Requests received and answers sent",
        "select": "Turns of the network thread",
        "io": "Share of time moving bytes",
        "io-wait": "Share of time waiting",
        "io-time-ns": "Nanoseconds moving bytes: in all, or a turn",
        "io-wait-time-ns": "Nanoseconds waiting: in all, or a turn",
        "iotime": "Nanoseconds moving bytes (Kafka's old name)",
        "io-waittime": "Nanoseconds waiting (Kafka's old name)",
        "connection-accept": "Connections accepted a second, by the measure of quotas",
        "broker-connection-accept": "Connections accepted a second on all listeners, by the measure of quotas",
        "connection-accept-throttle-time": "Mean delay of accepted connections, milliseconds",
        "ip-connection-accept-throttle-time": "Mean delay of connections closed because of their address, milliseconds",
        "MemoryPoolAvgDepletedPercent": "Share of time without memory for requests",
        "MemoryPoolDepletedTimeTotal": "Milliseconds without memory for requests",
    },
    "FetchSessionCache": {
        "NumIncrementalFetchSessions": "Incremental fetch sessions kept for clients (KIP-227)",
        "NumIncrementalFetchPartitionsCached": "Partitions in them",
        "IncrementalFetchSessionEvictionsPerSec": "Fetch sessions that made room for others",
    },
    "BrokerTopicMetrics": {
        "MessagesInPerSec": "Records appended",
        "BytesInPerSec": "Bytes appended",
        "BytesOutPerSec": "Bytes sent to consumers",
        "BytesRejectedPerSec": "Bytes refused because a batch was too large",
        "ReplicationBytesInPerSec": "Bytes copied from leaders",
        "ReplicationBytesOutPerSec": "Bytes sent to followers",
        "ReassignmentBytesInPerSec": "Bytes copied because of a reassignment",
        "ReassignmentBytesOutPerSec": "Bytes sent because of a reassignment",
        "TotalProduceRequestsPerSec": "Produces, each partition of a request counted",
        "TotalFetchRequestsPerSec": "Fetches, each partition of a request counted",
        "FailedProduceRequestsPerSec": "Produces that failed for a reason on our side",
        "FailedFetchRequestsPerSec": "Fetches that failed for a reason on our side",
        "ProduceMessageConversionsPerSec": "Records converted on their way in",
        "FetchMessageConversionsPerSec": "Records converted on their way out",
        "NoKeyCompactedTopicRecordsPerSec": "Records refused: without a key in a compacted topic",
        "InvalidMagicNumberRecordsPerSec": "Records refused: of a wrong format",
        "InvalidMessageCrcRecordsPerSec": "Records refused: damaged",
        "InvalidOffsetOrSequenceRecordsPerSec": "Records refused: offsets or sequence numbers that do not follow",
    },
    "GroupMetadataManager": {
        "NumOffsets": "Committed offsets",
        "NumGroups": "Groups that this broker coordinates",
        "NumGroupsEmpty": "Classic groups without members",
        "NumGroupsPreparingRebalance": "Classic groups that wait for their members to join again",
        "NumGroupsCompletingRebalance": "Classic groups that wait for their leader's assignment",
        "NumGroupsStable": "Classic groups whose members may have their assignment",
        "NumGroupsDead": "Classic groups that are about to vanish",
    },
    "group-coordinator-metrics": {
        "group-count": "Groups by protocol: classic, or consumer (KIP-848)",
        "consumer-group-count": "Groups of KIP-848 by state",
        "offset-commit": "Offsets committed",
        "offset-commit-count": "Offsets committed",
        "offset-expiration": "Offsets that expired",
        "offset-expiration-count": "Offsets that expired",
        "offset-deletion": "Offsets deleted by request",
        "offset-deletion-count": "Offsets deleted by request",
        "group-completed-rebalance": "Assignments that leaders of classic groups have made",
        "group-completed-rebalance-count": "Assignments that leaders of classic groups have made",
        "consumer-group-rebalance": "New epochs of groups of KIP-848",
        "consumer-group-rebalance-count": "New epochs of groups of KIP-848",
        "partition-load-time": "Mean milliseconds that loading a partition's groups took, over half a minute",
        "partition-load-time-max": "Longest of these",
    },
    "transaction-coordinator-metrics": {
        "partition-load-time": "Mean milliseconds that loading a partition's transactions took, over half a minute",
        "partition-load-time-max": "Longest of these",
    },
    "TransactionMarkerChannelManager": {
        "UnknownDestinationQueueSize": "Markers of transactions that wait for their partition's leader",
        "LogAppendRetryQueueSize": "Transactions with all markers whose log did not take that they are complete",
    },
    "AddPartitionsToTxnManager": {
        "VerificationFailureRate": "Partitions for which the first batch of a transaction was not verified",
        "VerificationTimeMs": "Until the transaction's coordinator had verified a first batch",
    },
    "ReplicaManager": {
        "LeaderCount": "Partitions led here",
        "PartitionCount": "Partitions here",
        "OfflineReplicaCount": "Partitions in failed log directories",
        "UnderReplicatedPartitions": "Partitions led here that lack in-sync replicas",
        "UnderMinIsrPartitionCount": "Partitions with fewer in-sync replicas than min.insync.replicas",
        "AtMinIsrPartitionCount": "Partitions with just as many in-sync replicas as min.insync.replicas",
        "ReassigningPartitions": "Partitions led here that are being moved",
        "PartitionsWithLateTransactionsCount": "Partitions led here with a transaction that should have timed out",
        "ProducerIdCount": "Producers whose sequence numbers are remembered",
        "IsrShrinksPerSec": "Times a replica fell out of sync",
        "IsrExpandsPerSec": "Times a replica caught up",
        "FailedIsrUpdatesPerSec": "Changes of in-sync replicas that could not be stored",
    },
    "ReplicaFetcherManager": {
        "MaxLag": "Records by which the slowest partition that is copied here is behind its leader",
        "MinFetchRate": "Fetches a second of the thread that sends the fewest, over a minute",
        "FailedPartitionsCount": "Partitions that are copied no more because of an error",
        "DeadThreadCount": "Threads that copy partitions and have ended by themselves",
    },
    "ReplicaAlterLogDirsManager": {
        "MaxLag": "Records by which the slowest copy into another log directory is behind its log",
        "DeadThreadCount": "Threads that move logs between directories and have ended by themselves",
    },
    "FetcherStats": {
        "RequestsPerSec": "Fetches that this thread has sent to its leader",
        "BytesPerSec": "Bytes that this thread has copied from its leader",
    },
    "FetcherLagMetrics": {"ConsumerLag": "Records by which this partition is behind its leader"},
    "Partition": {
        "UnderReplicated": "1 if it lacks in-sync replicas",
        "UnderMinIsr": "1 if it has fewer in-sync replicas than min.insync.replicas",
        "AtMinIsr": "1 if it has just as many in-sync replicas as min.insync.replicas",
        "InSyncReplicasCount": "In-sync replicas, where it is led",
        "ReplicasCount": "Replicas, where it is led",
        "LastStableOffsetLag": "From the last stable offset to the high watermark",
    },
    "Log": {
        "Size": "Bytes",
        "NumLogSegments": "Segments",
        "LogStartOffset": "First offset",
        "LogEndOffset": "Offset of the next record",
    },
    "LogManager": {
        "LogDirectoryOffline": "1 if the directory has failed",
        "OfflineLogDirectoryCount": "Directories that have failed",
        "remainingLogsToRecover": "Logs that a start has still to load",
        "remainingSegmentsToRecover": "Segments that a thread of a start has still to recover in its log",
    },
    "LogFlushStats": {"LogFlushRateAndTimeMs": "Segments brought to stable storage, and how long that took"},
    "Throttler": {"cleaner-io": "Bytes that the cleaner has read and written"},
    "LogCleaner": {
        "DeadThreadCount": "Cleaners that have ended",
        "cleaner-recopy-percent": "Share of what was cleaned that was written again",
        "max-buffer-utilization-percent": "How full the table of keys got, at most",
        "max-clean-time-secs": "Seconds the longest of the last cleanings took",
        "max-compaction-delay-secs": "Seconds by which compaction is late, at most",
    },
    "LogCleanerManager": {
        "max-dirty-percent": "Share of the dirtiest log that could be cleaned",
        "time-since-last-run-ms": "Milliseconds since a log was looked for",
        "uncleanable-bytes": "Bytes in logs whose cleaning failed",
        "uncleanable-partitions-count": "Logs whose cleaning failed",
    },
    "DelayedOperationPurgatory": {
        "PurgatorySize": "Watches: one for each key of each waiting operation",
        "NumDelayedOperations": "Operations that wait",
    },
    "DelayedProduceMetrics": {"ExpiresPerSec": "Batches that waited in vain for replicas"},
    "DelayedFetchMetrics": {"ExpiresPerSec": "Fetches that waited as long as they may"},
    "DelayedDeleteRecordsMetrics": {"ExpiresPerSec": "Deletions of records that waited in vain for replicas"},
    "KafkaController": {
        "ActiveControllerCount": "1 where the controller is",
        "ControllerState": "What the controller is doing (Kafka's numbers)",
        "ActiveBrokerCount": "Live brokers",
        "FencedBrokerCount": "Brokers shut out; none in ZooKeeper mode",
        "GlobalTopicCount": "Topics of the cluster",
        "GlobalPartitionCount": "Partitions of the cluster",
        "OfflinePartitionsCount": "Partitions without a leader",
        "PreferredReplicaImbalanceCount": "Partitions not led by their preferred replica",
        "TopicsToDeleteCount": "Topics being deleted",
        "ReplicasToDeleteCount": "Replicas being deleted",
        "TopicsIneligibleToDeleteCount": "Topics whose deletion waits",
        "ReplicasIneligibleToDeleteCount": "Replicas whose deletion waits",
        "ZkMigrationState": "Always that of a cluster that is not migrating",
    },
    "ControllerEventManager": {
        "EventQueueSize": "Events that wait for the controller",
        "EventQueueTimeMs": "How long they waited",
    },
    "ControllerChannelManager": {
        "TotalQueueSize": "Requests of the controller that wait to be sent",
        "QueueSize": "Requests of the controller that wait to be sent, by broker",
        "RequestRateAndQueueTimeMs": "Requests of the controller, and how long they waited, by broker",
    },
    "ControllerStats": {"UncleanLeaderElectionsPerSec": "Leaders elected out of sync: records were lost"},
    "Produce": {"byte-rate": "Bytes a second", "throttle-time": "Mean milliseconds that quotas held the client up"},
    "Fetch": {"byte-rate": "Bytes a second", "throttle-time": "Mean milliseconds that quotas held the client up"},
    "LeaderReplication": {"byte-rate": "Bytes a second sent to throttled replicas"},
    "FollowerReplication": {"byte-rate": "Bytes a second fetched for throttled replicas"},
    "AlterLogDirsReplication": {"byte-rate": "Bytes a second copied between log directories"},
    "Request": {
        "request-time": "Percent of a thread's time spent on the client's requests",
        "exempt-request-time": "Percent of a thread's time spent on requests that no quota is for",
        "throttle-time": "Mean milliseconds that quotas held the client up",
    },
    "ControllerMutation": {
        "mutation-rate": "Partitions created and deleted a second",
        "tokens": "Partitions that may be created or deleted at once",
        "throttle-time": "Mean milliseconds that quotas held the client up",
    },
}

_EVERYWHERE: Final = {"queue-size": "Connections held up by this quota now"}
_TIMER: Final = "RateAndTimeMs"
_ENDINGS: Final = ("", "-rate", "-total", "-ratio", "-avg")
_PLANE: Final = "ControlPlane"


def description_of(name: MBeanName) -> str | None:
    """Return the description of a metric, or None for a metric without one."""
    of_kind = _BY_KIND.get(name.type, {})
    plain = name.name.removeprefix(_PLANE)
    # A meter is several metrics, such as `select-rate` and `select-total`, with one description.
    for ending in _ENDINGS:
        if plain.endswith(ending):
            text = of_kind.get(plain.removesuffix(ending)) or _EVERYWHERE.get(plain)
            if text is not None:
                return text + _what_is(ending)
    if name.type == "ControllerStats" and name.name.endswith(_TIMER):
        return f"How often the controller handled this event, and how long that took: {plain.removesuffix(_TIMER)}"
    return None


def _what_is(ending: str) -> str:
    return ", a second" if ending == "-rate" else ""
