"""A valid request of every API and version that a broker of one node takes, and that leaves nothing behind.

The fuzz campaign mutates them. They name a topic that exists, so that handlers get to work; those that create or delete
are refused for a reason no single mutation removes, or only validate; groups are the exception: their members time out,
and their offsets expire. Orders of a controller come from one that was
deposed long ago, are about partitions that are not here, and keep their epochs (`PROTECTED_FIELDS_BYTES`): who may send
a higher epoch may depose the real controller, mutant or not.

An API that is served and has no line here fails `test_every_api_has_a_real_request`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.consumer_protocol import Subscription, encode_subscription
from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.classic_groups import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
from barnabas.protocol.messages.cluster import DescribeClusterRequest, UnregisterBrokerRequest
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.group_admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from barnabas.protocol.messages.inter_broker import (
    AllocateProducerIdsRequest,
    AlterPartitionRequest,
    ControlledShutdownRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateFeaturesRequest,
    UpdateMetadataRequest,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.messages.list_offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from barnabas.protocol.messages.log_dirs import AlterReplicaLogDirsRequest, DescribeLogDirsRequest
from barnabas.protocol.messages.message import Message
from barnabas.protocol.messages.metadata import DescribeTopicPartitionsRequest, MetadataRequest
from barnabas.protocol.messages.offsets import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.messages.quotas import (
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    DescribeClientQuotasRequest,
    DescribeUserScramCredentialsRequest,
)
from barnabas.protocol.messages.reassignments import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
)
from barnabas.protocol.messages.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.messages.telemetry import GetTelemetrySubscriptionsRequest, PushTelemetryRequest
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    TxnOffsetCommitRequest,
)
from barnabas.records.compression import Codec
from barnabas.records.legacy_records import encode_message_set
from barnabas.records.v2.walk import Record
from tests.support.raw_client import FETCH_BY_TOPIC_ID, PRODUCE_BY_TOPIC_ID, make_batch

TARGET: Final = "target"
"""The topic that requests are about: one partition."""
NO_BROKER: Final = 0x7F7F7F7F
"""No single change makes this the id of a broker that lives."""
PROTECTED_FIELDS_BYTES: Final = {
    ApiKey.LEADER_AND_ISR: 17,
    ApiKey.STOP_REPLICA: 17,
    ApiKey.UPDATE_METADATA: 17,
    ApiKey.CONTROLLED_SHUTDOWN: 4,
    ApiKey.ALTER_PARTITION: 12,
}
"""How many bytes of a body hold the sender's id and its epochs, which mutants keep."""
_TOPIC, _BROKER = 2, 4
_LARGE_VALUE_BYTES = 200_000
_OTHER_TOPIC = "no-such-topic"
_SESSION_TIMEOUT_MS, _REBALANCE_TIMEOUT_MS = 6000, 1000
_BY_TOPIC_ID_SINCE = 10
"""OffsetCommit and OffsetFetch."""
_TOKEN_OWNER_SINCE = 3
_SUBSCRIPTION = encode_subscription(Subscription((TARGET,)))


class RealRequests:
    """Makes requests from a seeded source. target_id: the id of the topic `TARGET`."""

    def __init__(self, source: random.Random, target_id: bytes) -> None:
        self._random = source
        self._target_id = target_id

    def make(self, api_key: ApiKey, version: int) -> Message:
        """A request of that version. Raises KeyError for an API that has no line in the table."""
        return MAKERS[api_key](self, version)

    # -- records

    def produce(self, version: int) -> ProduceRequest:
        chance = self._random
        partition = ProduceRequest.PartitionProduceData(0, self._records(version))
        topic = ProduceRequest.TopicProduceData(partition_data=[partition])
        if version >= PRODUCE_BY_TOPIC_ID:
            topic.topic_id = self._target_id
        else:
            topic.name = TARGET
        return ProduceRequest(acks=chance.choice([1, -1, 0]), timeout_ms=1000, topic_data=[topic])

    def fetch(self, version: int) -> FetchRequest:
        partition = FetchRequest.FetchPartition(0, fetch_offset=0, partition_max_bytes=3000)
        topic = FetchRequest.FetchTopic(partitions=[partition])
        if version >= FETCH_BY_TOPIC_ID:
            topic.topic_id = self._target_id
        else:
            topic.topic = TARGET
        return FetchRequest(max_wait_ms=1, min_bytes=1, max_bytes=5000, topics=[topic])

    def list_offsets(self, _version: int) -> ListOffsetsRequest:
        place = ListOffsetsRequest.ListOffsetsPartition(0, timestamp=self._random.choice([-1, -2, 1_700_000_000_000]))
        return ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(TARGET, [place])])

    def delete_records(self, _version: int) -> DeleteRecordsRequest:
        partition = DeleteRecordsRequest.DeleteRecordsPartition(0, 0)
        return DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(TARGET, [partition])], 1000)

    def offset_for_leader_epoch(self, _version: int) -> OffsetForLeaderEpochRequest:
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, leader_epoch=0)
        return OffsetForLeaderEpochRequest(
            topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(TARGET, [partition])]
        )

    def describe_producers(self, _version: int) -> DescribeProducersRequest:
        return DescribeProducersRequest([DescribeProducersRequest.TopicRequest(TARGET, [0, 1])])

    def init_producer_id(self, _version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(None, 1000)

    def _records(self, version: int) -> bytes:
        chance = self._random
        values = [b"v" * chance.randrange(1, 40) for _ in range(chance.randrange(1, 5))]
        if chance.random() < 0.02:
            values.append(bytes(_LARGE_VALUE_BYTES))  # a frame that comes in many pieces, into a recycled buffer
        codec = chance.choice([Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
        if version >= 3:
            return make_batch(values, codec)
        records = [Record(offset, 0, None, value, ()) for offset, value in enumerate(values)]
        return encode_message_set(0 if version < 2 else 1, records, codec)

    # -- topics and partitions

    def metadata(self, version: int) -> MetadataRequest:
        return MetadataRequest(
            [MetadataRequest.MetadataRequestTopic(name=TARGET)], allow_auto_topic_creation=version < 4
        )

    def describe_topic_partitions(self, _version: int) -> DescribeTopicPartitionsRequest:
        cursor = DescribeTopicPartitionsRequest.Cursor(TARGET, 0) if self._random.random() < 0.5 else None
        return DescribeTopicPartitionsRequest([DescribeTopicPartitionsRequest.TopicRequest(TARGET)], 10, cursor)

    def create_topics(self, version: int) -> CreateTopicsRequest:
        # No mutant may make ten thousand partitions: it is one of a name that nothing makes right, or placed by hand.
        settings = [CreateTopicsRequest.CreatableTopicConfig("no.such.setting", "1000")]
        if self._random.random() < 0.5:
            new = CreateTopicsRequest.CreatableTopic("/" * 40, 3, 2, [], settings)
        else:
            nowhere = [CreateTopicsRequest.CreatableReplicaAssignment(number, [NO_BROKER]) for number in range(3)]
            new = CreateTopicsRequest.CreatableTopic("new", -1, -1, nowhere, settings)
        return CreateTopicsRequest([new], 1000, validate_only=version >= 1)

    def delete_topics(self, version: int) -> DeleteTopicsRequest:
        if version >= 6:
            return DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(_OTHER_TOPIC)], [], 1000)
        return DeleteTopicsRequest([], [_OTHER_TOPIC, "nor-this"], 1000)

    def create_partitions(self, _version: int) -> CreatePartitionsRequest:
        # of a topic that is not there: a mutant that shifts the fields would make thousands of another's
        nowhere = [CreatePartitionsRequest.CreatePartitionsAssignment([NO_BROKER])]
        topic = CreatePartitionsRequest.CreatePartitionsTopic(_OTHER_TOPIC, 2, self._random.choice([nowhere, None]))
        return CreatePartitionsRequest([topic], 1000, validate_only=True)

    def elect_leaders(self, _version: int) -> ElectLeadersRequest:
        partitions = [ElectLeadersRequest.TopicPartitions(TARGET, [0, 1])]
        return ElectLeadersRequest(0, self._random.choice([partitions, None]), 1000)

    def alter_partition_reassignments(self, _version: int) -> AlterPartitionReassignmentsRequest:
        wanted = self._random.choice([[0], [NO_BROKER], None])
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(0, wanted)
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(TARGET, [partition])
        return AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=[topic])

    def list_partition_reassignments(self, _version: int) -> ListPartitionReassignmentsRequest:
        topic = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics(TARGET, [0, 1])
        return ListPartitionReassignmentsRequest(1000, self._random.choice([[topic], None]))

    def describe_log_dirs(self, _version: int) -> DescribeLogDirsRequest:
        topics = [DescribeLogDirsRequest.DescribableLogDirTopic(TARGET, [0, 1])]
        return DescribeLogDirsRequest(self._random.choice([topics, None]))

    def alter_replica_log_dirs(self, _version: int) -> AlterReplicaLogDirsRequest:
        topic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic(TARGET, [0])
        return AlterReplicaLogDirsRequest([AlterReplicaLogDirsRequest.AlterReplicaLogDir("/no/such/dir", [topic])])

    # -- settings and quotas

    def describe_configs(self, _version: int) -> DescribeConfigsRequest:
        wanted = [
            DescribeConfigsRequest.DescribeConfigsResource(_TOPIC, TARGET, ["retention.ms"]),
            DescribeConfigsRequest.DescribeConfigsResource(_BROKER, "0", None),
        ]
        return DescribeConfigsRequest([self._random.choice(wanted)])

    def list_config_resources(self, version: int) -> ListConfigResourcesRequest:
        return ListConfigResourcesRequest([_TOPIC, _BROKER] if version else [])

    def alter_configs(self, _version: int) -> AlterConfigsRequest:
        setting = AlterConfigsRequest.AlterableConfig("flush.ms", "9")
        return AlterConfigsRequest([AlterConfigsRequest.AlterConfigsResource(_TOPIC, TARGET, [setting])])

    def incremental_alter_configs(self, _version: int) -> IncrementalAlterConfigsRequest:
        setting = IncrementalAlterConfigsRequest.AlterableConfig("cleanup.policy", 2, "delete")
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource(_TOPIC, TARGET, [setting])
        return IncrementalAlterConfigsRequest([resource])

    def describe_client_quotas(self, _version: int) -> DescribeClientQuotasRequest:
        component = DescribeClientQuotasRequest.ComponentData("client-id", self._random.choice([0, 1, 2]), None)
        if component.match_type == 0:
            component.match = "somebody"
        return DescribeClientQuotasRequest([component], strict=self._random.random() < 0.5)

    def describe_user_scram_credentials(self, _version: int) -> DescribeUserScramCredentialsRequest:
        users = [DescribeUserScramCredentialsRequest.UserName(name) for name in ("alice", "bob", "bob")]
        return DescribeUserScramCredentialsRequest(self._random.choice([users, [], None]))

    def alter_user_scram_credentials(self, _version: int) -> AlterUserScramCredentialsRequest:
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion("nobody", self._random.randrange(4))
        upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            "somebody", self._random.randrange(4), 4096, b"salt", b"salted"
        )
        return AlterUserScramCredentialsRequest([deletion], [upsertion])

    def alter_client_quotas(self, _version: int) -> AlterClientQuotasRequest:
        entity = AlterClientQuotasRequest.EntityData("client-id", "somebody")
        change = AlterClientQuotasRequest.OpData("producer_byte_rate", 1e12, remove=False)
        return AlterClientQuotasRequest([AlterClientQuotasRequest.EntryData([entity], [change])], validate_only=True)

    def add_partitions_to_txn(self, version: int) -> AddPartitionsToTxnRequest:
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(TARGET, [0, 1])
        if version < 4:
            return AddPartitionsToTxnRequest([], "t", 5, 0, [topic])
        verify_only = self._random.random() < 0.5
        transaction = AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction("t", 5, 0, verify_only, [topic])
        return AddPartitionsToTxnRequest([transaction])

    def add_offsets_to_txn(self, _version: int) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest("t", 5, 0, "g")

    def end_txn(self, _version: int) -> EndTxnRequest:
        return EndTxnRequest("t", 5, 0, self._random.random() < 0.5)

    def describe_transactions(self, _version: int) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(["t", "u"])

    def list_transactions(self, version: int) -> ListTransactionsRequest:
        duration_ms = self._random.choice([-1, 0, 1000]) if version else -1
        return ListTransactionsRequest(self._random.choice([[], ["Ongoing"]]), [], duration_ms)

    def txn_offset_commit(self, version: int) -> TxnOffsetCommitRequest:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(0, 5, committed_metadata="m")
        topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(TARGET, [partition])
        request = TxnOffsetCommitRequest("t", "g", 5, 0, topics=[topic])
        if version >= 3:
            request.group_instance_id = self._random.choice([None, "i"])
        return request

    # -- the cluster

    def api_versions(self, _version: int) -> ApiVersionsRequest:
        return ApiVersionsRequest("client", "1.0")

    def find_coordinator(self, version: int) -> FindCoordinatorRequest:
        return FindCoordinatorRequest("group") if version < 4 else FindCoordinatorRequest(coordinator_keys=["g", "h"])

    def describe_cluster(self, _version: int) -> DescribeClusterRequest:
        return DescribeClusterRequest()

    def update_features(self, _version: int) -> UpdateFeaturesRequest:
        wanted = UpdateFeaturesRequest.FeatureUpdateKey("no.such.feature", 2)
        return UpdateFeaturesRequest(1000, [wanted])

    def unregister_broker(self, _version: int) -> UnregisterBrokerRequest:
        return UnregisterBrokerRequest(NO_BROKER)

    def get_telemetry_subscriptions(self, _version: int) -> GetTelemetrySubscriptionsRequest:
        return GetTelemetrySubscriptionsRequest(self._random.randbytes(16))

    def push_telemetry(self, _version: int) -> PushTelemetryRequest:
        return PushTelemetryRequest(self._random.randbytes(16), 1, terminating=False, compression_type=0, metrics=b"m")

    # -- groups

    def join_group(self, version: int) -> JoinGroupRequest:
        # A group of its own: nobody else's join is waited for.
        chance = self._random
        return JoinGroupRequest(
            group_id=f"join-{chance.randrange(10**9)}",
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id="",
            group_instance_id=chance.choice([None, "instance"]) if version >= 5 else None,
            protocol_type="consumer",
            protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name, _SUBSCRIPTION) for name in ("range", "sticky")],
            reason="why not" if version >= 8 else None,
        )

    def sync_group(self, version: int) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self._group(),
            generation_id=1,
            member_id="m0",
            group_instance_id=self._random.choice([None, "instance"]) if version >= 3 else None,
            protocol_type="consumer" if version >= 5 else None,
            protocol_name="range" if version >= 5 else None,
            assignments=[SyncGroupRequest.SyncGroupRequestAssignment(f"m{number}", b"yours") for number in range(3)],
        )

    def heartbeat(self, version: int) -> HeartbeatRequest:
        instance_id = self._random.choice([None, "instance"]) if version >= 3 else None
        return HeartbeatRequest(self._group(), 1, "m0", instance_id)

    def leave_group(self, version: int) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(self._group(), "m0")
        leaving = [LeaveGroupRequest.MemberIdentity("m0"), LeaveGroupRequest.MemberIdentity("", "instance")]
        return LeaveGroupRequest(self._group(), members=leaving)

    def offset_commit(self, version: int) -> OffsetCommitRequest:
        partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, 7, committed_metadata="where I am")
        topic = OffsetCommitRequest.OffsetCommitRequestTopic(partitions=[partition])
        if version >= _BY_TOPIC_ID_SINCE:
            topic.topic_id = self._target_id
        else:
            topic.name = TARGET
        return OffsetCommitRequest(self._group(), topics=[topic])

    def offset_fetch(self, version: int) -> OffsetFetchRequest:
        everything = version >= 2 and self._random.random() < 0.3
        if version < 8:
            topic = OffsetFetchRequest.OffsetFetchRequestTopic(TARGET, [0, 1])
            return OffsetFetchRequest(self._group(), None if everything else [topic])
        asked = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=[0, 1])
        if version >= _BY_TOPIC_ID_SINCE:
            asked.topic_id = self._target_id
        else:
            asked.name = TARGET
        groups = [
            OffsetFetchRequest.OffsetFetchRequestGroup(self._group(), topics=None if everything else [asked])
            for _ in range(2)
        ]
        return OffsetFetchRequest(groups=groups, require_stable=self._random.random() < 0.5)

    def offset_delete(self, _version: int) -> OffsetDeleteRequest:
        partitions = [OffsetDeleteRequest.OffsetDeleteRequestPartition(number) for number in (0, 1)]
        return OffsetDeleteRequest(self._group(), [OffsetDeleteRequest.OffsetDeleteRequestTopic(TARGET, partitions)])

    def describe_groups(self, version: int) -> DescribeGroupsRequest:
        return DescribeGroupsRequest([self._group(), "no-such-group"], version >= 3 and self._random.random() < 0.5)

    def list_groups(self, version: int) -> ListGroupsRequest:
        states = ["Stable", "Empty"] if version >= 4 and self._random.random() < 0.5 else []
        return ListGroupsRequest(states, ["consumer"] if version >= 5 and self._random.random() < 0.5 else [])

    def delete_groups(self, _version: int) -> DeleteGroupsRequest:
        return DeleteGroupsRequest([self._group(), "no-such-group"])

    def consumer_group_heartbeat(self, version: int) -> ConsumerGroupHeartbeatRequest:
        # Members of one group, which come and go; a heartbeat in between is of no epoch that there is.
        chance = self._random
        regex = "targ.*" if version >= 1 and chance.random() < 0.3 else None
        return ConsumerGroupHeartbeatRequest(
            group_id="consumers",
            member_id=f"member-{chance.randrange(5)}",
            member_epoch=chance.choice([0, 0, -1, 1]),
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=None if regex else [TARGET, _OTHER_TOPIC],
            subscribed_topic_regex=regex,
            server_assignor=chance.choice([None, "uniform", "range"]),
            topic_partitions=[],
        )

    def consumer_group_describe(self, _version: int) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(["consumers", self._group()], self._random.random() < 0.5)

    def _group(self) -> str:
        return f"group-{self._random.randrange(10)}"

    # -- brokers among themselves

    def leader_and_isr(self, version: int) -> LeaderAndIsrRequest:
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState(leader=7, isr=[7], replicas=[7, 8])
        told = LeaderAndIsrRequest(controller_id=7)
        if version < 2:
            state.topic_name = _OTHER_TOPIC
            told.ungrouped_partition_states = [state]
        else:
            told.topic_states = [LeaderAndIsrRequest.LeaderAndIsrTopicState(_OTHER_TOPIC, partition_states=[state])]
        return told

    def stop_replica(self, version: int) -> StopReplicaRequest:
        if version == 0:
            return StopReplicaRequest(ungrouped_partitions=[StopReplicaRequest.StopReplicaPartitionV0(_OTHER_TOPIC, 1)])
        if version < 3:
            return StopReplicaRequest(topics=[StopReplicaRequest.StopReplicaTopicV1(_OTHER_TOPIC, [0, 1])])
        stopped = StopReplicaRequest.StopReplicaPartitionState(1, delete_partition=True)
        return StopReplicaRequest(topic_states=[StopReplicaRequest.StopReplicaTopicState(_OTHER_TOPIC, [stopped])])

    def update_metadata(self, version: int) -> UpdateMetadataRequest:
        broker = UpdateMetadataRequest.UpdateMetadataBroker(7)
        if version == 0:
            broker.v0_host = "h"
        else:
            broker.endpoints = [UpdateMetadataRequest.UpdateMetadataEndpoint(9, "h")]
        return UpdateMetadataRequest(controller_id=7, live_brokers=[broker])

    def controlled_shutdown(self, _version: int) -> ControlledShutdownRequest:
        return ControlledShutdownRequest(NO_BROKER)

    def alter_partition(self, version: int) -> AlterPartitionRequest:
        partition = AlterPartitionRequest.PartitionData(0, 0, partition_epoch=0)
        if version < 3:
            partition.new_isr = [NO_BROKER]
        else:
            partition.new_isr_with_epochs = [AlterPartitionRequest.BrokerState(NO_BROKER)]
        topic = AlterPartitionRequest.TopicData(partitions=[partition])
        if version < 2:
            topic.topic_name = TARGET
        else:
            topic.topic_id = self._target_id
        return AlterPartitionRequest(NO_BROKER, 1, [topic])

    def allocate_producer_ids(self, _version: int) -> AllocateProducerIdsRequest:
        return AllocateProducerIdsRequest(NO_BROKER, 1)

    def write_txn_markers(self, _version: int) -> WriteTxnMarkersRequest:
        topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(_OTHER_TOPIC, [0, 1])
        return WriteTxnMarkersRequest([WriteTxnMarkersRequest.WritableTxnMarker(5, 0, True, [topic], 3)])

    # -- security

    def describe_acls(self, _version: int) -> DescribeAclsRequest:
        return DescribeAclsRequest(2, self._random.choice([TARGET, None]), operation=1, permission_type=1)

    def create_acls(self, _version: int) -> CreateAclsRequest:
        return CreateAclsRequest([CreateAclsRequest.AclCreation(2, TARGET, 3, "User:a", "*", 3, 3)])

    def delete_acls(self, _version: int) -> DeleteAclsRequest:
        return DeleteAclsRequest([DeleteAclsRequest.DeleteAclsFilter(2, TARGET, operation=1, permission_type=1)])

    def sasl_handshake(self, _version: int) -> SaslHandshakeRequest:
        return SaslHandshakeRequest(self._random.choice(["PLAIN", "SCRAM-SHA-256", ""]))

    def sasl_authenticate(self, _version: int) -> SaslAuthenticateRequest:
        return SaslAuthenticateRequest(self._random.randbytes(20))

    def create_delegation_token(self, version: int) -> CreateDelegationTokenRequest:
        renewer = CreateDelegationTokenRequest.CreatableRenewers("User", "renewer")
        request = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1)
        if version >= _TOKEN_OWNER_SINCE:
            request.owner_principal_type, request.owner_principal_name = "User", "owner"
        return request

    def renew_delegation_token(self, _version: int) -> RenewDelegationTokenRequest:
        return RenewDelegationTokenRequest(self._random.randbytes(64), -1)

    def expire_delegation_token(self, _version: int) -> ExpireDelegationTokenRequest:
        return ExpireDelegationTokenRequest(self._random.randbytes(64), -1)

    def describe_delegation_token(self, _version: int) -> DescribeDelegationTokenRequest:
        owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner("User", "owner")
        return DescribeDelegationTokenRequest(self._random.choice([None, [], [owner]]))


MAKERS: Final[dict[ApiKey, Callable[[RealRequests, int], Message]]] = {
    ApiKey.PRODUCE: RealRequests.produce,
    ApiKey.FETCH: RealRequests.fetch,
    ApiKey.LIST_OFFSETS: RealRequests.list_offsets,
    ApiKey.METADATA: RealRequests.metadata,
    ApiKey.LEADER_AND_ISR: RealRequests.leader_and_isr,
    ApiKey.STOP_REPLICA: RealRequests.stop_replica,
    ApiKey.UPDATE_METADATA: RealRequests.update_metadata,
    ApiKey.CONTROLLED_SHUTDOWN: RealRequests.controlled_shutdown,
    ApiKey.OFFSET_COMMIT: RealRequests.offset_commit,
    ApiKey.OFFSET_FETCH: RealRequests.offset_fetch,
    ApiKey.FIND_COORDINATOR: RealRequests.find_coordinator,
    ApiKey.JOIN_GROUP: RealRequests.join_group,
    ApiKey.HEARTBEAT: RealRequests.heartbeat,
    ApiKey.LEAVE_GROUP: RealRequests.leave_group,
    ApiKey.SYNC_GROUP: RealRequests.sync_group,
    ApiKey.DESCRIBE_GROUPS: RealRequests.describe_groups,
    ApiKey.LIST_GROUPS: RealRequests.list_groups,
    ApiKey.API_VERSIONS: RealRequests.api_versions,
    ApiKey.CREATE_TOPICS: RealRequests.create_topics,
    ApiKey.DELETE_TOPICS: RealRequests.delete_topics,
    ApiKey.DELETE_RECORDS: RealRequests.delete_records,
    ApiKey.INIT_PRODUCER_ID: RealRequests.init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: RealRequests.offset_for_leader_epoch,
    ApiKey.ADD_PARTITIONS_TO_TXN: RealRequests.add_partitions_to_txn,
    ApiKey.ADD_OFFSETS_TO_TXN: RealRequests.add_offsets_to_txn,
    ApiKey.END_TXN: RealRequests.end_txn,
    ApiKey.DESCRIBE_TRANSACTIONS: RealRequests.describe_transactions,
    ApiKey.LIST_TRANSACTIONS: RealRequests.list_transactions,
    ApiKey.WRITE_TXN_MARKERS: RealRequests.write_txn_markers,
    ApiKey.TXN_OFFSET_COMMIT: RealRequests.txn_offset_commit,
    ApiKey.DESCRIBE_CONFIGS: RealRequests.describe_configs,
    ApiKey.ALTER_CONFIGS: RealRequests.alter_configs,
    ApiKey.ALTER_REPLICA_LOG_DIRS: RealRequests.alter_replica_log_dirs,
    ApiKey.DESCRIBE_LOG_DIRS: RealRequests.describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: RealRequests.create_partitions,
    ApiKey.DELETE_GROUPS: RealRequests.delete_groups,
    ApiKey.ELECT_LEADERS: RealRequests.elect_leaders,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: RealRequests.incremental_alter_configs,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: RealRequests.alter_partition_reassignments,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: RealRequests.list_partition_reassignments,
    ApiKey.OFFSET_DELETE: RealRequests.offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: RealRequests.describe_client_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: RealRequests.alter_client_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: RealRequests.describe_user_scram_credentials,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: RealRequests.alter_user_scram_credentials,
    ApiKey.ALTER_PARTITION: RealRequests.alter_partition,
    ApiKey.UPDATE_FEATURES: RealRequests.update_features,
    ApiKey.DESCRIBE_CLUSTER: RealRequests.describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: RealRequests.describe_producers,
    ApiKey.UNREGISTER_BROKER: RealRequests.unregister_broker,
    ApiKey.ALLOCATE_PRODUCER_IDS: RealRequests.allocate_producer_ids,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: RealRequests.consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: RealRequests.consumer_group_describe,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: RealRequests.get_telemetry_subscriptions,
    ApiKey.PUSH_TELEMETRY: RealRequests.push_telemetry,
    ApiKey.LIST_CONFIG_RESOURCES: RealRequests.list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: RealRequests.describe_topic_partitions,
    ApiKey.DESCRIBE_ACLS: RealRequests.describe_acls,
    ApiKey.CREATE_ACLS: RealRequests.create_acls,
    ApiKey.DELETE_ACLS: RealRequests.delete_acls,
    ApiKey.SASL_HANDSHAKE: RealRequests.sasl_handshake,
    ApiKey.SASL_AUTHENTICATE: RealRequests.sasl_authenticate,
    ApiKey.CREATE_DELEGATION_TOKEN: RealRequests.create_delegation_token,
    ApiKey.RENEW_DELEGATION_TOKEN: RealRequests.renew_delegation_token,
    ApiKey.EXPIRE_DELEGATION_TOKEN: RealRequests.expire_delegation_token,
    ApiKey.DESCRIBE_DELEGATION_TOKEN: RealRequests.describe_delegation_token,
}
