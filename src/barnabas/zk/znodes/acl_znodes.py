"""Access control lists kept in the store, and the notices that they changed: the znodes, and Kafka's calls on them.

AclZnodes is a part of `KafkaZkClient` (its attribute `acls`), used by `metadata.acl_admin` on any thread; stateless, so
no lock. The znodes are written as Apache Kafka 3.9 writes them, as `broker_zk_data` says. A pattern's entries are the
children of a list in one znode:

    /kafka-acl/Topic/orders                      literal patterns
    /kafka-acl-extended/prefixed/Topic/orders-   prefixed patterns
    /kafka-acl-changes/acl_changes_0000000007            TOPIC:orders
    /kafka-acl-extended-changes/acl_changes_0000000002   {"version":1,"resourceType":"TOPIC",...}

Kafka: the ACL half of kafka.zk.KafkaZkClient; ZkData (ZkAclStore, ZkAclChangeStore, ResourceZNode), AclEntry.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.security.acl.acl_binding import AccessControlEntry, ResourcePattern, parse_principal
from barnabas.security.acl.acl_codes import RESOURCE_TYPES, AclOperation, AclPermissionType, PatternType, ResourceType
from barnabas.zk.store.errors import BadVersionError, NodeExistsError, NoNodeError
from barnabas.zk.store.store import Create, Delete, NodeData, SetData, Stat
from barnabas.zk.znodes.znode_access import ChangeNotices, ZnodeAccess
from barnabas.zk.znodes.znode_json import ZnodeFormatError, decode_json, encode_json

logger = logging.getLogger(__name__)

_PATTERN_TYPES: Final = (PatternType.LITERAL, PatternType.PREFIXED)
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
    """The access control entries of one resource pattern."""

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


class VersionedAcls(NamedTuple):
    """The entries of a pattern and the version of their znode; None: there is no znode."""

    entries: frozenset[AccessControlEntry]
    version: int | None


NO_ACLS: Final = VersionedAcls(frozenset(), None)


class AclZnodes:
    """The lists, by Kafka's calls."""

    def __init__(self, access: ZnodeAccess) -> None:
        self._access = access
        self.notices: Mapping[PatternType, ChangeNotices] = {
            each: ChangeNotices(access, AclChangesZNode.path(each), AclChangeZNode.prefix) for each in _PATTERN_TYPES
        }

    def make_sure_paths_exist(self) -> None:
        """Create the parents of lists and notices. Kafka: createAclPaths."""
        paths = [ResourceTypeZNode.path(how, kind) for how in _PATTERN_TYPES for kind in RESOURCE_TYPES]
        self._access.make_sure_exist([*paths, *(AclChangesZNode.path(how) for how in _PATTERN_TYPES)])

    def read_all(self) -> dict[ResourcePattern, VersionedAcls]:
        """Return every list. Resources of a type that is unknown here are left out, with a warning, as in Kafka.

        Raises ZnodeFormatError: a list cannot be understood.
        """
        patterns = [
            ResourcePattern(kind, name, how)
            for how in _PATTERN_TYPES
            for kind in self._resource_types(how)
            for name in self._access.children(ResourceTypeZNode.path(how, kind))
        ]
        nodes = self._access.get_many([ResourceZNode.path(pattern) for pattern in patterns])
        return {
            pattern: _acls_of(pattern, node) for pattern, node in zip(patterns, nodes, strict=True) if node is not None
        }

    def read(self, pattern: ResourcePattern) -> VersionedAcls:
        """Return the entries of a pattern. Raises ZnodeFormatError: they cannot be understood."""
        node = self._access.get(ResourceZNode.path(pattern))
        return NO_ACLS if node is None else _acls_of(pattern, node)

    def write(
        self, pattern: ResourcePattern, entries: frozenset[AccessControlEntry], expected: int | None
    ) -> VersionedAcls | None:
        """Replace the entries of a pattern, and notify every broker, if the version is still the expected one.

        A pattern without entries keeps no znode. Returns what is stored now, or None when the version is another.
        """
        path, data = ResourceZNode.path(pattern), ResourceZNode.encode(entries)
        change: Create | SetData | Delete
        if not entries:
            if expected is None:
                return NO_ACLS
            change = Delete(path, expected)
        else:
            change = Create(path, data) if expected is None else SetData(path, data, expected)
        # All or nothing, with the notice last: a broker that reads the notice finds the list, and a change that did not
        # happen has no notice.
        notice = self.notices[pattern.pattern_type].creation(AclChangeZNode.encode(pattern))
        try:
            changed, _ = self._access.store.multi([change, notice])
        except (BadVersionError, NodeExistsError, NoNodeError):
            return None
        if not entries:
            return NO_ACLS
        return VersionedAcls(entries, changed.version if isinstance(changed, Stat) else 0)

    def _resource_types(self, pattern_type: PatternType) -> list[ResourceType]:
        known = {each.title: each for each in RESOURCE_TYPES}
        found: list[ResourceType] = []
        for name in self._access.children(AclStoreZNode.path(pattern_type)):
            if name in known:
                found.append(known[name])
            else:
                logger.warning("Ignoring unknown ResourceType: %s", name)
        return found


def _acls_of(pattern: ResourcePattern, node: NodeData) -> VersionedAcls:
    """Return the entries in a znode. Raises ZnodeFormatError, which names the znode: they cannot be understood."""
    try:
        return VersionedAcls(ResourceZNode.decode(node.data), node.stat.version)
    except ZnodeFormatError as error:
        raise ZnodeFormatError(f"{ResourceZNode.path(pattern)}: {error}") from error
