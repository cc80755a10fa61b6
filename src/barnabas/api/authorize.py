"""The permissions of clients, asked of the authorizer.

Called by the handlers, on any thread, before anything else happens; no lock. The authorizer is the one that the broker
was given; None means that there is no access control and everything is allowed, as in Kafka without
`authorizer.class.name`. Clients may also ask for the operations they are allowed (KIP-430).

Kafka: AuthHelper, org.apache.kafka.server.authorizer.Authorizer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

from barnabas.api.brief import LOOKED_UP_AT_ONCE, each_once
from barnabas.api.request import ConnectionContext, Request
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.security.acl.acl_codes import SUPPORTED_OPERATIONS, AclOperation, Action, ResourceType

CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class Authorizer(Protocol):
    """Decides what clients may do. Called from any thread, network threads among them: it must not block."""

    def authorize(self, connection: ConnectionContext, actions: Sequence[Action], api_key: ApiKey) -> Sequence[bool]:
        """Return for each of `actions`, in their order, whether the client of `connection` may do it.

        api_key: of the request that needs them.
        """

    def authorize_by_resource_type(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, api_key: ApiKey
    ) -> bool:
        """Return whether the client may do `operation` to at least one resource of this type, existing or not."""

    def is_known_to_allow(
        self, connection: ConnectionContext, operation: AclOperation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return True where the client may do `operation` and nothing is to be logged; False says nothing.

        Handlers of the most frequent requests ask this first. An authorizer that remembers no decision need not
        override it.
        """
        return False

    def allows_for_want_of_lists(self, connection: ConnectionContext, resource_type: ResourceType, name: str) -> bool:
        """Return whether everything is allowed to this client there only because no list is about the resource.

        An authorizer that decides without such a rule need not override it.
        """
        return False


def is_allowed(
    authorizer: Authorizer | None,
    request: Request[Any],
    operation: AclOperation,
    resource_type: ResourceType,
    name: str,
    *,
    log_if_denied: bool = True,
) -> bool:
    """Return whether the client may do `operation` to one resource."""
    if authorizer is None:
        return True
    action = Action(operation, resource_type, name, log_if_denied=log_if_denied)
    return authorizer.authorize(request.connection, [action], request.handler.api_key)[0]


def is_allowed_somewhere(
    authorizer: Authorizer | None, request: Request[Any], operation: AclOperation, resource_type: ResourceType
) -> bool:
    """Return whether the client may do `operation` to any resource of this type."""
    if authorizer is None:
        return True
    return authorizer.authorize_by_resource_type(request.connection, operation, resource_type, request.handler.api_key)


def require_cluster_permission(authorizer: Authorizer | None, request: Request[Any], operation: AclOperation) -> None:
    """Check that the client may do `operation` to the cluster.

    Raises ApiError: CLUSTER_AUTHORIZATION_FAILED when it may not.
    """
    if not is_allowed(authorizer, request, operation, ResourceType.CLUSTER, CLUSTER_NAME):
        raise ApiError(
            ErrorCode.CLUSTER_AUTHORIZATION_FAILED, f"Request {request.handler.api_key.name} is not authorized."
        )


def permitted(
    authorizer: Authorizer | None,
    request: Request[Any],
    operation: AclOperation,
    resource_type: ResourceType,
    names: Iterable[str],
    *,
    log_if_denied: bool = True,
) -> AbstractSet[str]:
    """Return those of `names` to which the client may do `operation`. A repeated name is asked for once.

    Kafka: AuthHelper.filterByAuthorized.
    """
    if authorizer is None:
        return names.keys() if isinstance(names, dict) else each_once(names).keys()
    names = list(names)
    if len(names) == 1:
        # Most requests name one resource, and a Counter costs more than the decision.
        action = Action(operation, resource_type, names[0], 1, True, log_if_denied)
        allowed = authorizer.authorize(request.connection, [action], request.handler.api_key)[0]
        return frozenset(names) if allowed else frozenset()
    # One call for all names: an authorizer can look a client's rules up once. The count is for its audit log.
    counts: Counter[str] = Counter()
    for first in range(0, len(names), LOOKED_UP_AT_ONCE):
        counts.update(names[first : first + LOOKED_UP_AT_ONCE])
    actions = [
        Action(operation, resource_type, name, count, log_if_denied=log_if_denied) for name, count in counts.items()
    ]
    if not actions:
        return frozenset()
    answers = authorizer.authorize(request.connection, actions, request.handler.api_key)
    return {action.resource_name: None for action, allowed in zip(actions, answers, strict=True) if allowed}.keys()


NOT_REQUESTED: Final = -(2**31)
"""The value of an authorized-operations field that the client did not ask for."""
NO_OPERATIONS: Final = 0
"""The value for a client that may not even describe the resource."""


def authorized_operations(
    authorizer: Authorizer | None, request: Request[Any], resource_type: ResourceType, name: str
) -> int:
    """Return the operations that the client may do to a resource, as the bit field of answers: bit n is operation code
    n.

    Refusals are not logged: the client only asks. Kafka: AuthHelper.authorizedOperations.
    """
    operations = SUPPORTED_OPERATIONS[resource_type]
    if authorizer is None:
        return sum(1 << operation for operation in operations)
    # By position, since this is done for each topic of a Metadata answer.
    actions = [Action(operation, resource_type, name, 1, False, False) for operation in operations]
    answers = authorizer.authorize(request.connection, actions, request.handler.api_key)
    return sum(1 << operation for operation, allowed in zip(operations, answers, strict=True) if allowed)


def authorized_cluster_operations(authorizer: Authorizer | None, request: Request[Any]) -> int:
    """Return the same bit field for the cluster; no bits for a client that may not describe it."""
    if not is_allowed(authorizer, request, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        return NO_OPERATIONS
    return authorized_operations(authorizer, request, ResourceType.CLUSTER, CLUSTER_NAME)
