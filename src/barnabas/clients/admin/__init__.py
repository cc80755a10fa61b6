"""The admin client: `Admin`, its arguments and its results."""

from barnabas.clients.admin.acls import DeletedAcls
from barnabas.clients.admin.admin import Admin
from barnabas.clients.admin.client_quotas import DEFAULT, QuotaEntity
from barnabas.clients.admin.configs import ConfigChange, ConfigResource
from barnabas.clients.admin.features import BrokerFeatures, FeatureUpdate
from barnabas.clients.admin.group_admin import GroupDescription, GroupListing, GroupMember
from barnabas.clients.admin.partition_changes import NewPartitions, PartitionReassignment
from barnabas.clients.admin.records import LogDir, ProducerState, ReplicaInfo
from barnabas.clients.admin.scram_credentials import ScramAlteration, ScramCredential, ScramMechanism
from barnabas.clients.admin.topics import (
    ClusterDescription,
    ConfigEntry,
    CreatedTopic,
    NewTopic,
)
from barnabas.clients.admin.transactions import (
    FencedProducer,
    OpenTransaction,
    TransactionDescription,
    TransactionListing,
)
from barnabas.clients.metadata.cluster import PartitionInfo, TopicDescription
from barnabas.clients.values import OffsetAndMetadata, PreparedTransaction
from barnabas.protocol.codes import ConfigOperation, ConfigResourceType, ElectionType, UpgradeType
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AccessControlEntryFilter,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    ResourcePatternFilter,
)
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.security.delegation_token import DelegationToken, TokenInformation

__all__ = [
    "DEFAULT",
    "AccessControlEntry",
    "AccessControlEntryFilter",
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
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
    "DeletedAcls",
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
    "PatternType",
    "PreparedTransaction",
    "ProducerState",
    "QuotaEntity",
    "ReplicaInfo",
    "ResourcePattern",
    "ResourcePatternFilter",
    "ResourceType",
    "ScramAlteration",
    "ScramCredential",
    "ScramMechanism",
    "TokenInformation",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "UpgradeType",
]
