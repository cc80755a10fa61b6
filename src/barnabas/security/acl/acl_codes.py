"""The codes of access control lists: operations, types of resources, types of patterns, permissions; and actions.

Used by the authorizer, the handlers, the znodes of ACLs, the admin client and the command line, on any thread;
immutable. Each has Kafka's code on the wire, and the title that Kafka writes in znodes, in its log and in its tools.

Kafka: AclOperation, ResourceType, PatternType, AclPermissionType; SecurityUtils for the titles.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class _Code(IntEnum):
    """A code with a title."""

    @property
    def title(self) -> str:
        """The name as Kafka's znodes and its log have it, for example `DescribeConfigs`."""
        return "".join(word.capitalize() for word in self.name.split("_"))

    @classmethod
    def of_code(cls, code: int) -> Self:
        """Return the member with a code; UNKNOWN (0) for a code that this version does not know."""
        try:
            return cls(code)
        except ValueError:
            return cls(0)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Return the member of a title or a name, in upper or lower case; UNKNOWN (0) for any other text."""
        wanted = text.replace("_", "").replace("-", "").casefold()
        return next((member for member in cls if member.title.casefold() == wanted), cls(0))


class AclOperation(_Code):
    """An operation that an entry allows or denies. ANY is for filters only; ALL stands for every operation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
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
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class ResourceType(_Code):
    """The type of what an operation is done to. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


SUPPORTED_OPERATIONS: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
"""The operations that exist for a type of resource (Kafka: AclEntry.supportedOperations)."""


class PatternType(_Code):
    """How a pattern's name stands for names of resources. ANY and MATCH are for filters only.

    LITERAL: the name itself, or every name when it is `*`. PREFIXED: every name that begins with it.
    """

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclPermissionType(_Code):
    """Whether an entry allows or denies. ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


RESOURCE_TYPES = tuple(each for each in ResourceType if each not in (ResourceType.UNKNOWN, ResourceType.ANY))
"""The types that resources have."""


class Action(NamedTuple):
    """An operation that a client is about to do to one resource, which is named literally: no pattern, no prefix.

    reference_count: how often the request refers to the resource. log_if_allowed: the resource is really used, not only
    offered. log_if_denied: the refusal means an attempt; it does not where another permission would do as well, or
    where the resource is left out of a list.
    """

    operation: AclOperation
    resource_type: ResourceType
    resource_name: str
    reference_count: int = 1
    log_if_allowed: bool = True
    log_if_denied: bool = True
