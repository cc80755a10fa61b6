"""What a caller may do.

Called by the handlers, on any thread. There is no access control yet: `AllowEverything` is the authorizer (without one
Kafka allows every operation, too). Handlers ask all the same, so that one that refuses needs no change in them; and
clients ask which operations there are (KIP-430).

Kafka: AuthHelper, org.apache.kafka.server.authorizer.Authorizer, AclOperation, ResourceType.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Any, Protocol

from barnabas.api.request import ConnectionContext, Request
from barnabas.protocol.errors import ApiError, ErrorCode


class AclOperation(IntEnum):
    """Kafka's AclOperation codes."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """Kafka's ResourceType codes: what an operation is done to."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Authorizer(Protocol):
    """Says who may do what. Called from any thread."""

    def allows(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether whoever is at the other end of `connection` may do `operation` to the resource of this name."""


class AllowEverything:
    """The authorizer of a broker that has none."""

    def allows(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """See Authorizer."""
        return True


def require_cluster_permission(authorizer: Authorizer, request: Request[Any], operation: AclOperation) -> None:
    """ApiError CLUSTER_AUTHORIZATION_FAILED unless the sender may do `operation` to the cluster."""
    if not authorizer.allows(request.connection, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Request {request.handler.api_key.name} is not authorized."
        )


def permitted(
    authorizer: Authorizer,
    request: Request[Any],
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
) -> frozenset[str]:
    """Those of `names` to which the sender may do `operation`."""
    return frozenset(
        name for name in set(names) if authorizer.allows(request.connection, operation, resource_type, name)
    )


NOT_REQUESTED = -(2**31)
"""The value of an authorized-operations field that the client did not ask for."""


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS = _bits(
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DELETE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
)
"""Every operation on a topic, as the bit field of the Metadata answer (AclEntry.supportedOperations)."""

CLUSTER_OPERATIONS = _bits(
    AclOperation.CREATE,
    AclOperation.ALTER,
    AclOperation.DESCRIBE,
    AclOperation.CLUSTER_ACTION,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.IDEMPOTENT_WRITE,
)
"""Every operation on the cluster."""
