"""The admin client: topics, partitions, settings, quotas and groups, and a description of the cluster.

Any thread may call the methods, and waits for the answer. One request at a time is in flight (`admin_calls`).
Kafka: KafkaAdminClient.

    with Admin("localhost:9092") as admin:
        admin.create_topics([NewTopic("flights", num_partitions=4, replication_factor=1)])
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

from barnabas.clients.admin import configs, records, transactions
from barnabas.clients.admin import topics as topics_api
from barnabas.clients.admin.acls import DeletedAcls, create_acls, delete_acls, describe_acls
from barnabas.clients.admin.admin_calls import AdminCalls
from barnabas.clients.admin.client_quotas import (
    ANY_ENTITY,
    QuotaEntity,
    alter_client_quotas,
    describe_client_quotas,
)
from barnabas.clients.admin.configs import ConfigChange, ConfigResource
from barnabas.clients.admin.delegation_tokens import (
    create_delegation_token,
    describe_delegation_tokens,
    expire_delegation_token,
    renew_delegation_token,
)
from barnabas.clients.admin.features import (
    BrokerFeatures,
    FeatureUpdate,
    describe_features,
    unregister_broker,
    update_features,
)
from barnabas.clients.admin.group_admin import delete_groups, describe_groups, list_groups, remove_members
from barnabas.clients.admin.group_members import GroupDescription, GroupListing
from barnabas.clients.admin.group_offsets import (
    alter_offsets_of_group,
    delete_offsets_of_group,
    list_offsets_of_group,
)
from barnabas.clients.admin.new_topic import (
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
)
from barnabas.clients.admin.partition_changes import (
    NewPartitions,
    PartitionReassignment,
    alter_partition_reassignments,
    create_partitions,
    elect_leaders,
    list_partition_reassignments,
)
from barnabas.clients.admin.records import LogDir, ProducerState
from barnabas.clients.admin.scram_credentials import (
    ScramAlteration,
    ScramCredential,
    alter_user_scram_credentials,
    describe_user_scram_credentials,
)
from barnabas.clients.admin.transactions import (
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from barnabas.clients.calls.blocking_client import BlockingClient
from barnabas.clients.calls.offset_lookup import OffsetAndTimestamp
from barnabas.clients.calls.topic_lookup import TopicDescription
from barnabas.clients.client_metrics import MetricName
from barnabas.clients.settings.client_config import ClientConfig
from barnabas.clients.values import OffsetAndMetadata, PreparedTransaction, isolation_number
from barnabas.protocol.codes import ConfigResourceType, ElectionType
from barnabas.protocol.errors import ApiError
from barnabas.protocol.topic_partition import TopicPartition
from barnabas.rpc.node import Node
from barnabas.security.acl.acl_binding import AclBinding, AclBindingFilter
from barnabas.security.delegation_token import DelegationToken


class Admin:
    """An admin client. `timeout_ms` bounds each call, retries included. A `config` has further settings."""

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "barnabas-admin",
        timeout_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        config: ClientConfig | None = None,
        client: BlockingClient | None = None,
    ) -> None:
        if config is None:
            config = ClientConfig(client_id=client_id, request_timeout_ms=request_timeout_ms)
        if client is None:
            client = BlockingClient(bootstrap_servers, config.network_config(client_id), config.metadata_config())
        self._calls = AdminCalls(client, timeout_ms)
        self._client_id = config.client_id or client_id

    def metrics(self) -> dict[MetricName, float]:
        """Return what this client has measured of its connections, by Kafka's names; not a number without a value."""
        return self._calls.metrics(self._client_id)

    # -- topics

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> dict[str, CreatedTopic]:
        """Create topics and wait until they exist. With `validate_only`, only check whether they could be created.

        Every broker that can be reached knows them then, unless that takes more than two seconds. Raises ApiError for
        the first topic that cannot be created; all others are created.
        """
        return topics_api.create_topics(self._calls, topics, validate_only=validate_only)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics. Raises ApiError for the first topic that cannot be deleted; all others are deleted."""
        topics_api.delete_topics(self._calls, names)

    def list_topics(self, *, include_internal: bool = False) -> list[str]:
        """Return the names of all topics, sorted. Raises ClientTimeout, Disconnected."""
        return topics_api.list_topics(self._calls, include_internal=include_internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicDescription]:
        """Return these topics, or all. Raises ApiError for a topic that does not exist or may not be described."""
        return topics_api.describe_topics(self._calls, names)

    def create_partitions(self, wanted: Mapping[str, NewPartitions], *, validate_only: bool = False) -> None:
        """Give topics more partitions, and wait until the partitions exist.

        Raises ApiError for the first topic that cannot have more partitions. All other topics get theirs.
        """
        create_partitions(self._calls, wanted, validate_only=validate_only)

    def elect_leaders(
        self, election_type: ElectionType, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, ApiError | None]:
        """Request leader elections for these partitions, or for all.

        Returns the error, or None, of each partition that needed an election. Raises ApiError when no election took
        place at all.
        """
        return elect_leaders(self._calls, election_type, partitions)

    def alter_partition_reassignments(
        self, wanted: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, ApiError | None]:
        """Begin to move partitions to these brokers, the preferred leader first; None cancels a reassignment.

        Returns each partition's error, or None. Raises ApiError when no partition was changed at all.
        """
        return alter_partition_reassignments(self._calls, wanted)

    def list_partition_reassignments(
        self, partitions: Collection[TopicPartition] | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress, of these partitions or of all. Raises ApiError."""
        return list_partition_reassignments(self._calls, partitions)

    # -- the cluster

    def describe_cluster(self) -> ClusterDescription:
        """Return the cluster's id, controller and brokers. Raises ClientTimeout, Disconnected."""
        response = topics_api.metadata_of(self._calls, [])
        nodes = (Node(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers)
        return ClusterDescription(response.cluster_id, response.controller_id, tuple(sorted(nodes)))

    def describe_features(self, broker_id: int | None = None) -> BrokerFeatures:
        """Return the APIs and features of a broker, or of any broker. Raises ApiError."""
        return describe_features(self._calls, broker_id)

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> dict[str, ApiError | None]:
        """Change the levels of features by name. With `validate_only`, only check whether they could be changed.

        Returns each feature's error, or None. Raises ApiError when no feature was changed at all.
        """
        return update_features(self._calls, updates, validate_only=validate_only)

    def unregister_broker(self, broker_id: int) -> None:
        """Have a cluster with KRaft forget a broker that is gone for good.

        Raises ApiError: UNSUPPORTED_VERSION by a cluster without KRaft, as that of Barnabas, where a registration ends
        with its broker.
        """
        unregister_broker(self._calls, broker_id)

    def describe_user_scram_credentials(
        self, users: Collection[str] | None = None
    ) -> dict[str, tuple[ScramCredential, ...]]:
        """Return the SCRAM credentials of these users, or of all. A user without any is left out. Raises ApiError."""
        return describe_user_scram_credentials(self._calls, users)

    def alter_user_scram_credentials(self, alterations: Collection[ScramAlteration]) -> None:
        """Set and delete SCRAM credentials. Raises ApiError for the first user that is rejected."""
        alter_user_scram_credentials(self._calls, alterations)

    def describe_client_quotas(
        self, entity: QuotaEntity = ANY_ENTITY, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Return quotas by entity: this entity's and, unless `strict`, those of narrower ones. Raises ApiError."""
        return describe_client_quotas(self._calls, entity, strict=strict)

    def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Set quotas by name. None removes a quota. Raises ApiError for the first entity that is rejected."""
        alter_client_quotas(self._calls, changes, validate_only=validate_only)

    # -- access control lists

    def create_acls(self, bindings: Iterable[AclBinding]) -> dict[AclBinding, ApiError | None]:
        """Create entries of access control lists.

        Returns each entry's error, or None.
        """
        return create_acls(self._calls, bindings)

    def describe_acls(self, selection: AclBindingFilter) -> list[AclBinding]:
        """Return the entries that a filter selects, sorted; `AclBindingFilter()` selects all. Raises ApiError."""
        return describe_acls(self._calls, selection)

    def delete_acls(self, filters: Iterable[AclBindingFilter]) -> dict[AclBindingFilter, DeletedAcls]:
        """Delete the entries that filters select. Returns what each filter deleted; an entry belongs to one filter."""
        return delete_acls(self._calls, filters)

    # -- delegation tokens

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a token by which programs log in as `owner` (`User:alice`), this client's principal if not given.

        max_lifetime_ms: -1 for the broker's limit. Raises ApiError, and ValueError for a malformed principal.
        """
        return create_delegation_token(self._calls, owner, renewers, max_lifetime_ms)

    def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Prolong a token, by the broker's period if not given. Return its expiry timestamp (ms). Raises ApiError."""
        return renew_delegation_token(self._calls, hmac, period_ms)

    def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """End a token, at once or after a period. Return its expiry timestamp (ms). Raises ApiError."""
        return expire_delegation_token(self._calls, hmac, period_ms)

    def describe_delegation_tokens(self, owners: Collection[str] | None = None) -> list[DelegationToken]:
        """Return the tokens of these principals, or all that this client may see. Raises ApiError."""
        return describe_delegation_tokens(self._calls, owners)

    # -- groups

    def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Return all groups, or those of these states and types, sorted by id. Raises ApiError."""
        return list_groups(self._calls, states, types)

    def describe_groups(self, group_ids: Collection[str]) -> dict[str, GroupDescription]:
        """Return the state and the members of groups, of either protocol. Raises ApiError for an unknown group."""
        return describe_groups(self._calls, group_ids)

    def delete_groups(self, group_ids: Collection[str]) -> dict[str, ApiError | None]:
        """Delete groups with their offsets. Returns each group's error, or None.

        A group with members has the error NON_EMPTY_GROUP. Raises ApiError when a coordinator cannot be found.
        """
        return delete_groups(self._calls, group_ids)

    def remove_group_members(
        self, group_id: str, instance_ids: Collection[str] | None = None, *, reason: str = ""
    ) -> dict[str, ApiError | None]:
        """Remove static members by their instance ids, or all members. Members that are alive join again.

        Returns each member's error, or None. Raises ApiError when no member was removed at all.
        """
        return remove_members(self._calls, group_id, instance_ids, reason)

    def list_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets for these partitions, or for all. Partitions without one are left out.

        With `require_stable`, wait until no open transaction may change the offsets. Raises ApiError.
        """
        return list_offsets_of_group(self._calls, group_id, partitions, require_stable=require_stable)

    def alter_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> dict[TopicPartition, ApiError | None]:
        """Commit offsets for a group. Returns each partition's error, or None.

        While the group has members, the error is UNKNOWN_MEMBER_ID.
        """
        return alter_offsets_of_group(self._calls, group_id, offsets)

    def delete_group_offsets(
        self, group_id: str, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, ApiError | None]:
        """Delete a group's committed offsets for partitions of topics that its members do not subscribe to.

        Returns each partition's error, or None. Raises ApiError when no offset was deleted at all.
        """
        return delete_offsets_of_group(self._calls, group_id, partitions)

    # -- settings

    def describe_topic_configs(self, name: str) -> dict[str, ConfigEntry]:
        """Return all settings of a topic by name. Raises ApiError."""
        return self.describe_configs(ConfigResource.topic(name))

    def describe_broker_configs(self, broker_id: int) -> dict[str, ConfigEntry]:
        """Return all settings of a broker by name, from that broker. Raises ApiError."""
        return self.describe_configs(ConfigResource.broker(broker_id))

    def describe_configs(self, resource: ConfigResource, names: Iterable[str] | None = None) -> dict[str, ConfigEntry]:
        """Return settings of a topic or broker by name: these, or all. Raises ApiError."""
        return configs.describe_configs(self._calls, resource, names)

    def list_config_resources(self, types: Collection[ConfigResourceType] = ()) -> list[ConfigResource]:
        """Return the resources of these types that have settings, or all, sorted. Raises ApiError, UnsupportedVersion.

        Brokers before Kafka 4.1 list client metrics only (KIP-1142).
        """
        return configs.list_config_resources(self._calls, types)

    def incremental_alter_configs(
        self, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool = False
    ) -> None:
        """Change settings of a topic or broker. All other settings stay as they are.

        With `validate_only`, only check whether they could be changed. Raises ApiError when no setting was changed.
        """
        configs.incremental_alter_configs(self._calls, resource, changes, validate_only=validate_only)

    # -- records and replicas

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before these offsets; -1 deletes all. Returns each partition's new first offset.

        Raises ApiError for the first partition that fails. In other partitions, records may have been deleted.
        """
        return records.delete_records(self._calls, before)

    def describe_producers(
        self, partitions: Collection[TopicPartition], *, broker_id: int | None = None
    ) -> dict[TopicPartition, tuple[ProducerState, ...]]:
        """Return the idempotent producers that the leaders of partitions remember, or that a broker does.

        Raises ApiError.
        """
        return records.describe_producers(self._calls, partitions, broker_id)

    # -- transactions

    def list_transactions(
        self,
        *,
        states: Collection[str] = (),
        producer_ids: Collection[int] = (),
        longer_than_ms: int | None = None,
    ) -> list[TransactionListing]:
        """Return all transactional ids, or those of these states and producers and open for longer, sorted.

        Raises ApiError; UnsupportedVersion when a broker before Kafka 3.8 is asked for a duration.
        """
        return transactions.list_transactions(self._calls, states, producer_ids, longer_than_ms)

    def describe_transactions(self, transactional_ids: Collection[str]) -> dict[str, TransactionDescription]:
        """Return the state and the partitions of transactional ids. Raises ApiError for one that does not exist."""
        return transactions.describe_transactions(self._calls, transactional_ids)

    def fence_producers(self, transactional_ids: Collection[str]) -> dict[str, FencedProducer]:
        """Make the producers of these transactional ids fail, and abort their open transactions. Raises ApiError."""
        return transactions.fence_producers(self._calls, transactional_ids)

    def end_transaction(self, prepared: PreparedTransaction, *, commit: bool) -> None:
        """Commit, or abort, a transaction that `Producer.prepare_transaction` has returned.

        May be repeated, with the same decision. Raises ApiError: INVALID_PRODUCER_EPOCH, PRODUCER_FENCED or
        INVALID_TXN_STATE when the transaction was aborted, by its timeout or by another producer of the same
        `transactional_id`. ClientTimeout: the transaction may have been ended.
        """
        transactions.end_transaction(self._calls, prepared, commit=commit)

    def abort_transaction(self, transaction: OpenTransaction) -> None:
        """End a hanging transaction in one partition, as `describe_producers` shows it, by an abort marker.

        Only for transactions that no coordinator knows any more. Raises ApiError.
        """
        transactions.abort_transaction(self._calls, transaction)

    def describe_log_dirs(self, broker_id: int) -> list[LogDir]:
        """Return a broker's log directories with their replicas, failed directories too. Raises ApiError."""
        return records.describe_log_dirs(self._calls, broker_id)

    def alter_replica_log_dirs(
        self, broker_id: int, wanted: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, ApiError | None]:
        """Move a broker's replicas to other of its log directories, by their absolute paths.

        Returns the error of each partition, or None when the move has begun; `describe_log_dirs` shows its replica as
        `is_future` until it is done. A partition that the broker does not have yet gets REPLICA_NOT_AVAILABLE, and will
        be made in that directory.
        """
        return records.alter_replica_log_dirs(self._calls, broker_id, wanted)

    def replica_end_offsets(self, broker_id: int, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end offset of each partition on one broker, leader or follower: their difference is a lag.

        Partitions that the broker cannot read are left out. Raises ApiError.
        """
        return records.replica_end_offsets(self._calls, broker_id, partitions)

    def list_offsets(
        self, timestamps_ms: Mapping[TopicPartition, int], *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Return offsets by time: -1 for the latest, -2 the earliest, -3 the largest timestamp.

        isolation_level: with read_committed the latest is the last stable offset, and records behind it are not found.
        Raises ApiError, and ValueError for an unknown level.
        """
        return self._calls.lookup_offsets(dict(timestamps_ms), isolation_number(isolation_level))

    def close(self) -> None:
        """Close the connections. Idempotent."""
        self._calls.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
