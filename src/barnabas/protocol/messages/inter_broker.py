"""The requests between the brokers and the controller of a ZooKeeper-mode cluster.

Messages only, in the notation of `protocol.schema`; a message belongs to the code that holds it.

Kafka: LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest, ControlledShutdownRequest,
WriteTxnMarkersRequest, AlterPartitionRequest, UpdateFeaturesRequest, AllocateProducerIdsRequest and their responses, in
common/message/*.json.
"""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.message_spec import MessageSpec, StructSpec
from barnabas.protocol.schema import Int8, Int16, Int32, Int64, Uuid, field


# v1: `is_new`; v2: grouped by topic; broker epoch: a request from before a broker's restart is refused (KIP-380).
# v3: replicas that join and leave (KIP-455); v4: flexible; v5: topic ids, and whether this is all there is (KIP-516).
# v6: recovery of an unclean leader (KIP-704); v7: whether the controller is a KRaft one (KIP-866).
class LeaderAndIsrRequest(MessageSpec, api=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    controller_id: Int32 = field("0+")
    is_kraft_controller: bool = field("7+")
    controller_epoch: Int32 = field("0+")
    broker_epoch: Int64 = field("2+", ignorable=True, default=-1)
    type: Int8 = field("5+")
    ungrouped_partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = field("0-1")
    topic_states: list[LeaderAndIsrRequest.LeaderAndIsrTopicState] = field("2+")
    live_leaders: list[LeaderAndIsrRequest.LeaderAndIsrLiveLeader] = field("0+")

    class LeaderAndIsrPartitionState(StructSpec):
        topic_name: str = field("0-1", ignorable=True)
        partition_index: Int32 = field("0+")
        controller_epoch: Int32 = field("0+")
        leader: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")
        isr: list[Int32] = field("0+")
        partition_epoch: Int32 = field("0+")
        replicas: list[Int32] = field("0+")
        adding_replicas: list[Int32] = field("3+", ignorable=True)
        removing_replicas: list[Int32] = field("3+", ignorable=True)
        is_new: bool = field("1+", ignorable=True)
        leader_recovery_state: Int8 = field("6+")

    class LeaderAndIsrTopicState(StructSpec):
        topic_name: str = field("2+")
        topic_id: Uuid = field("5+", ignorable=True)
        partition_states: list[LeaderAndIsrRequest.LeaderAndIsrPartitionState] = field("2+")

    class LeaderAndIsrLiveLeader(StructSpec):
        broker_id: Int32 = field("0+")
        host_name: str = field("0+")
        port: Int32 = field("0+")


class LeaderAndIsrResponse(MessageSpec, api=ApiKey.LEADER_AND_ISR, versions="0-7", flexible="4+"):
    error_code: Int16 = field("0+")
    partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = field("0-4")
    topics: list[LeaderAndIsrResponse.LeaderAndIsrTopicError] = field("5+")

    class LeaderAndIsrPartitionError(StructSpec):
        topic_name: str = field("0-4", ignorable=True)
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")

    class LeaderAndIsrTopicError(StructSpec):
        topic_id: Uuid = field("5+")
        partition_errors: list[LeaderAndIsrResponse.LeaderAndIsrPartitionError] = field("5+")


# v1: broker epoch (KIP-380), grouped by topic; v2: flexible; v3: leader epoch and deletion per partition (KIP-570).
# v4: whether the controller is a KRaft one (KIP-866).
class StopReplicaRequest(MessageSpec, api=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    controller_id: Int32 = field("0+")
    is_kraft_controller: bool = field("4+")
    controller_epoch: Int32 = field("0+")
    broker_epoch: Int64 = field("1+", ignorable=True, default=-1)
    delete_partitions: bool = field("0-2")
    ungrouped_partitions: list[StopReplicaRequest.StopReplicaPartitionV0] = field("0")
    topics: list[StopReplicaRequest.StopReplicaTopicV1] = field("1-2")
    topic_states: list[StopReplicaRequest.StopReplicaTopicState] = field("3+")

    class StopReplicaPartitionV0(StructSpec):
        topic_name: str = field("0")
        partition_index: Int32 = field("0")

    class StopReplicaTopicV1(StructSpec):
        name: str = field("1-2")
        partition_indexes: list[Int32] = field("1-2")

    class StopReplicaTopicState(StructSpec):
        topic_name: str = field("3+")
        partition_states: list[StopReplicaRequest.StopReplicaPartitionState] = field("3+")

    class StopReplicaPartitionState(StructSpec):
        partition_index: Int32 = field("3+")
        # -2 is the epoch of a topic that is deleted: it fences every replica, and is never compared.
        leader_epoch: Int32 = field("3+", default=-1)
        delete_partition: bool = field("3+")


class StopReplicaResponse(MessageSpec, api=ApiKey.STOP_REPLICA, versions="0-4", flexible="2+"):
    error_code: Int16 = field("0+")
    partition_errors: list[StopReplicaResponse.StopReplicaPartitionError] = field("0+")

    class StopReplicaPartitionError(StructSpec):
        topic_name: str = field("0+")
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")


# v1: several endpoints of a broker; v2: racks (KIP-36); v3: listener names (KIP-103); v4: offline replicas (KIP-112).
# v5: broker epoch (KIP-380), grouped by topic; v6: flexible; v7: topic ids (KIP-516); v8: KRaft controllers (KIP-866).
class UpdateMetadataRequest(MessageSpec, api=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    controller_id: Int32 = field("0+")
    is_kraft_controller: bool = field("8+")
    type: Int8 = field("8+", tag=0, tagged="8+")
    controller_epoch: Int32 = field("0+")
    broker_epoch: Int64 = field("5+", ignorable=True, default=-1)
    ungrouped_partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = field("0-4")
    topic_states: list[UpdateMetadataRequest.UpdateMetadataTopicState] = field("5+")
    live_brokers: list[UpdateMetadataRequest.UpdateMetadataBroker] = field("0+")

    class UpdateMetadataPartitionState(StructSpec):
        topic_name: str = field("0-4", ignorable=True)
        partition_index: Int32 = field("0+")
        controller_epoch: Int32 = field("0+")
        leader: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")
        isr: list[Int32] = field("0+")
        zk_version: Int32 = field("0+")
        replicas: list[Int32] = field("0+")
        offline_replicas: list[Int32] = field("4+", ignorable=True)

    class UpdateMetadataTopicState(StructSpec):
        topic_name: str = field("5+")
        topic_id: Uuid = field("7+", ignorable=True)
        partition_states: list[UpdateMetadataRequest.UpdateMetadataPartitionState] = field("5+")

    class UpdateMetadataBroker(StructSpec):
        id: Int32 = field("0+")
        v0_host: str = field("0", ignorable=True)
        v0_port: Int32 = field("0", ignorable=True)
        endpoints: list[UpdateMetadataRequest.UpdateMetadataEndpoint] = field("1+", ignorable=True)
        rack: str | None = field("2+", nullable="2+", ignorable=True)

    class UpdateMetadataEndpoint(StructSpec):
        port: Int32 = field("1+")
        host: str = field("1+")
        listener: str = field("3+", ignorable=True)
        security_protocol: Int16 = field("1+")


class UpdateMetadataResponse(MessageSpec, api=ApiKey.UPDATE_METADATA, versions="0-8", flexible="6+"):
    error_code: Int16 = field("0+")


# v0 has a header without a client id, as no other request; v2: broker epoch (KIP-380); v3: flexible.
class ControlledShutdownRequest(MessageSpec, api=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("2+", ignorable=True, default=-1)


class ControlledShutdownResponse(MessageSpec, api=ApiKey.CONTROLLED_SHUTDOWN, versions="0-3", flexible="3+"):
    error_code: Int16 = field("0+")
    remaining_partitions: list[ControlledShutdownResponse.RemainingPartition] = field("0+")

    class RemainingPartition(StructSpec):
        topic_name: str = field("0+")
        partition_index: Int32 = field("0+")


# v1: flexible; v2: the version of the transaction, for a stricter check of epochs (KIP-1228).
class WriteTxnMarkersRequest(MessageSpec, api=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    markers: list[WriteTxnMarkersRequest.WritableTxnMarker] = field("0+")

    class WritableTxnMarker(StructSpec):
        producer_id: Int64 = field("0+")
        producer_epoch: Int16 = field("0+")
        transaction_result: bool = field("0+")
        topics: list[WriteTxnMarkersRequest.WritableTxnMarkerTopic] = field("0+")
        coordinator_epoch: Int32 = field("0+")
        transaction_version: Int8 = field("2+", ignorable=True)

    class WritableTxnMarkerTopic(StructSpec):
        name: str = field("0+")
        partition_indexes: list[Int32] = field("0+")


class WriteTxnMarkersResponse(MessageSpec, api=ApiKey.WRITE_TXN_MARKERS, versions="0-2", flexible="1+"):
    markers: list[WriteTxnMarkersResponse.WritableTxnMarkerResult] = field("0+").repeats("markers")

    class WritableTxnMarkerResult(StructSpec):
        producer_id: Int64 = field("0+").repeats("producer_id")
        topics: list[WriteTxnMarkersResponse.WritableTxnMarkerTopicResult] = field("0+").repeats("topics")

    class WritableTxnMarkerTopicResult(StructSpec):
        name: str = field("0+").repeats("name")
        partitions: list[WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult] = field("0+").repeats(
            "partition_indexes"
        )

    class WritableTxnMarkerPartitionResult(StructSpec):
        partition_index: Int32 = field("0+").repeats("partition_index")
        error_code: Int16 = field("0+")


# v0: the leader asks the controller to change the ISR (KIP-497); v1: recovery of an unclean leader (KIP-704).
# v2: topic ids instead of names (KIP-841); v3: epochs of the brokers, so that one which restarted is refused (KIP-903).
class AlterPartitionRequest(MessageSpec, api=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)
    topics: list[AlterPartitionRequest.TopicData] = field("0+")

    class TopicData(StructSpec):
        topic_name: str = field("0-1", ignorable=True)
        topic_id: Uuid = field("2+", ignorable=True)
        partitions: list[AlterPartitionRequest.PartitionData] = field("0+")

    class PartitionData(StructSpec):
        partition_index: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")
        new_isr: list[Int32] = field("0-2")
        new_isr_with_epochs: list[AlterPartitionRequest.BrokerState] = field("3+")
        leader_recovery_state: Int8 = field("1+")
        partition_epoch: Int32 = field("0+")

    class BrokerState(StructSpec):
        broker_id: Int32 = field("3+")
        broker_epoch: Int64 = field("3+", default=-1)


class AlterPartitionResponse(MessageSpec, api=ApiKey.ALTER_PARTITION, versions="0-3", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    topics: list[AlterPartitionResponse.TopicData] = field("0+")

    class TopicData(StructSpec):
        topic_name: str = field("0-1", ignorable=True)
        topic_id: Uuid = field("2+", ignorable=True)
        partitions: list[AlterPartitionResponse.PartitionData] = field("0+")

    class PartitionData(StructSpec):
        partition_index: Int32 = field("0+")
        error_code: Int16 = field("0+")
        leader_id: Int32 = field("0+")
        leader_epoch: Int32 = field("0+")
        isr: list[Int32] = field("0+")
        leader_recovery_state: Int8 = field("1+", ignorable=True)
        partition_epoch: Int32 = field("0+")


# v0: KIP-584; v1: `validate_only`, and kinds of downgrades; v2: no results per feature: all are changed, or none.
class UpdateFeaturesRequest(MessageSpec, api=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    timeout_ms: Int32 = field("0+", default=60000)
    feature_updates: list[UpdateFeaturesRequest.FeatureUpdateKey] = field("0+")
    validate_only: bool = field("1+")

    class FeatureUpdateKey(StructSpec):
        feature: str = field("0+")
        max_version_level: Int16 = field("0+")
        allow_downgrade: bool = field("0")
        upgrade_type: Int8 = field("1+", default=1)


class UpdateFeaturesResponse(MessageSpec, api=ApiKey.UPDATE_FEATURES, versions="0-2", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    results: list[UpdateFeaturesResponse.UpdatableFeatureResult] = field("0-1", ignorable=True)

    class UpdatableFeatureResult(StructSpec):
        feature: str = field("0+")
        error_code: Int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")


# v0: a block of ids for one broker, so that most producers cost the controller nothing (KIP-730).
class AllocateProducerIdsRequest(MessageSpec, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    broker_id: Int32 = field("0+")
    broker_epoch: Int64 = field("0+", default=-1)


class AllocateProducerIdsResponse(MessageSpec, api=ApiKey.ALLOCATE_PRODUCER_IDS, versions="0", flexible="0+"):
    throttle_time_ms: Int32 = field("0+")
    error_code: Int16 = field("0+")
    producer_id_start: Int64 = field("0+")
    producer_id_len: Int32 = field("0+")
