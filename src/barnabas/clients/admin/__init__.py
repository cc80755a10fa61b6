"""The admin client: `Admin`, its arguments and its results."""

from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.client_quotas import DEFAULT, QuotaEntity
from barnabas.clients.admin.config_change import ConfigChange, ConfigResource
from barnabas.clients.admin.features import BrokerFeatures, FeatureUpdate
from barnabas.clients.admin.group_members import GroupDescription, GroupListing, GroupMember
from barnabas.clients.admin.new_topic import (
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
    TopicDescription,
)
from barnabas.clients.admin.partition_changes import NewPartitions, PartitionReassignment
from barnabas.clients.admin.replicas import LogDir, ProducerState, ReplicaInfo
from barnabas.clients.admin.scram_credentials import ScramCredential, ScramMechanism
from barnabas.clients.admin.transactions import (
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from barnabas.clients.cluster import PartitionInfo
from barnabas.clients.offset_and_metadata import OffsetAndMetadata
from barnabas.clients.prepared_transaction import PreparedTransaction
from barnabas.protocol.config_codes import ConfigOperation, ConfigResourceType
from barnabas.protocol.election_type import ElectionType
from barnabas.protocol.feature_codes import UpgradeType
from barnabas.security.tokens.delegation_token import DelegationToken, TokenInformation

__all__ = [
    "DEFAULT",
    "Admin",
    "BrokerFeatures",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "CreatedTopic",
    "DelegationToken",
    "ElectionType",
    "FeatureUpdate",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "LogDir",
    "NewPartitions",
    "NewTopic",
    "OffsetAndMetadata",
    "OpenTransaction",
    "PartitionInfo",
    "PartitionReassignment",
    "PreparedTransaction",
    "ProducerState",
    "QuotaEntity",
    "ReplicaInfo",
    "ScramCredential",
    "ScramMechanism",
    "TokenInformation",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]
