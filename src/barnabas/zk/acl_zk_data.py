"""The znodes of access control lists and of notices that lists changed: where each is kept and what is in it.

Written as Apache Kafka 3.9 writes them, as `broker_zk_data` says. Used by `acl_znodes` on any thread; stateless, so no
lock. A pattern's entries are the children of a list in one znode:

    /kafka-acl/Topic/orders                      literal patterns
    /kafka-acl-extended/prefixed/Topic/orders-   prefixed patterns
    /kafka-acl-changes/acl_changes_0000000007            TOPIC:orders
    /kafka-acl-extended-changes/acl_changes_0000000002   {"version":1,"resourceType":"TOPIC",...}

Kafka: kafka.zk.ZkData (ZkAclStore, ZkAclChangeStore, ResourceZNode), AclEntry for the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.security.acl.acl_binding import AccessControlEntry, parse_principal
from barnabas.security.acl.acl_codes import AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.security.acl.resource_pattern import ResourcePattern
from barnabas.zk.znode_json import ZnodeFormatError, decode_json, encode_json

PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
_VERSION: Final = 1


class AclStoreZNode:
    """The parent of all lists of one type of patterns."""

    @staticmethod
    def path(pattern_type: PatternType) -> str:
        """Return the path of that parent."""
        return "/kafka-acl" if pattern_type is PatternType.LITERAL else "/kafka-acl-extended/prefixed"


class ResourceTypeZNode:
    """The parent of the lists of one type of patterns and of resources."""

    @staticmethod
    def path(pattern_type: PatternType, resource_type: ResourceType) -> str:
        """Return the path of that parent."""
        return f"{AclStoreZNode.path(pattern_type)}/{resource_type.title}"


class ResourceZNode:
    """The entries of one pattern."""

    @staticmethod
    def path(pattern: ResourcePattern) -> str:
        """Return the path of the entries."""
        return f"{ResourceTypeZNode.path(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"

    @staticmethod
    def encode(entries: Iterable[AccessControlEntry]) -> bytes:
        """Return version 1, the entries in order (Kafka's are in none)."""
        acls = [
            {
                "principal": each.principal,
                "permissionType": each.permission_type.title,
                "operation": each.operation.title,
                "host": each.host,
            }
            for each in sorted(entries)
        ]
        return encode_json({"acls": acls, "version": _VERSION})

    @staticmethod
    def decode(data: bytes) -> frozenset[AccessControlEntry]:
        """Return the entries; none for an empty znode.

        Raises ZnodeFormatError: another version, or an entry without its four texts. A list that is misunderstood must
        not be taken for a shorter one.
        """
        if not data:
            return frozenset()
        value = decode_json(data, "an access control list")
        acls = value.get("acls")
        if value.get("version") != _VERSION or not isinstance(acls, list):
            raise ZnodeFormatError(f"Unsupported access control list: {data[:200]!r}")
        try:
            entries = frozenset(
                AccessControlEntry(
                    parse_principal(each["principal"]),
                    str(each["host"]),
                    AclOperation.of_text(each["operation"]),
                    AclPermissionType.of_text(each["permissionType"]),
                )
                for each in acls
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ZnodeFormatError(f"Unsupported access control list: {data[:200]!r}") from error
        # An entry that denies, misunderstood, would let its principal in.
        if any(entry.is_unknown for entry in entries):
            raise ZnodeFormatError(f"Unsupported access control list: {data[:200]!r}")
        return entries


class AclChangesZNode:
    """The parent of the notices about one type of patterns."""

    @staticmethod
    def path(pattern_type: PatternType) -> str:
        """Return the path of that parent."""
        return "/kafka-acl-changes" if pattern_type is PatternType.LITERAL else "/kafka-acl-extended-changes"


class AclChangeZNode:
    """A notice that a pattern's entries are to be read again."""

    prefix = "acl_changes_"

    @staticmethod
    def encode(pattern: ResourcePattern) -> bytes:
        """Return the pattern: a literal one as type:name, a prefixed one as version 1."""
        if pattern.pattern_type is PatternType.LITERAL:
            return f"{pattern.resource_type.name}:{pattern.name}".encode()
        return encode_json(
            {
                "version": _VERSION,
                "resourceType": pattern.resource_type.name,
                "name": pattern.name,
                "patternType": pattern.pattern_type.name,
            }
        )

    @staticmethod
    def decode(data: bytes, pattern_type: PatternType) -> ResourcePattern:
        """Return the pattern. pattern_type: of the parent. Raises ZnodeFormatError: it is no such notice."""
        if pattern_type is PatternType.LITERAL:
            type_name, colon, literal = data.decode(errors="replace").partition(":")
            if not colon:
                raise ZnodeFormatError(f"expected a string in format ResourceType:ResourceName but got {data[:200]!r}")
            return ResourcePattern(ResourceType.of_text(type_name), literal, PatternType.LITERAL)
        value = decode_json(data, "a notice of changed access control lists")
        version, name = value.get("version"), value.get("name")
        if not isinstance(version, int) or version > _VERSION or not isinstance(name, str):
            raise ZnodeFormatError(f"Unsupported notice of changed access control lists: {data[:200]!r}")
        return ResourcePattern(
            ResourceType.of_text(str(value.get("resourceType"))),
            name,
            PatternType.of_text(str(value.get("patternType"))),
        )
