"""Access control lists kept in the store, and the notices that they changed.

A part of `KafkaZkClient` (its attribute `acls`), used by `metadata.acl_admin` on any thread; stateless, so no lock.
Kafka: the ACL half of kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final, NamedTuple

from barnabas.security.acl.acl_binding import AccessControlEntry
from barnabas.security.acl.acl_codes import RESOURCE_TYPES, PatternType, ResourceType
from barnabas.security.acl.resource_pattern import ResourcePattern
from barnabas.zk.acl_zk_data import (
    PATTERN_TYPES,
    AclChangesZNode,
    AclChangeZNode,
    AclStoreZNode,
    ResourceTypeZNode,
    ResourceZNode,
)
from barnabas.zk.change_notices import ChangeNotices
from barnabas.zk.errors import BadVersionError, NodeExistsError, NoNodeError
from barnabas.zk.store import Create, Delete, NodeData, SetData, Stat
from barnabas.zk.znode_access import ZnodeAccess
from barnabas.zk.znode_json import ZnodeFormatError

logger = logging.getLogger(__name__)


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
            each: ChangeNotices(access, AclChangesZNode.path(each), AclChangeZNode.prefix) for each in PATTERN_TYPES
        }

    def make_sure_paths_exist(self) -> None:
        """Create the parents of lists and notices. Kafka: createAclPaths."""
        paths = [ResourceTypeZNode.path(how, kind) for how in PATTERN_TYPES for kind in RESOURCE_TYPES]
        self._access.make_sure_exist([*paths, *(AclChangesZNode.path(how) for how in PATTERN_TYPES)])

    def read_all(self) -> dict[ResourcePattern, VersionedAcls]:
        """Return every list. Resources of a type that is unknown here are left out, with a warning, as in Kafka.

        Raises ZnodeFormatError: a list cannot be understood.
        """
        patterns = [
            ResourcePattern(kind, name, how)
            for how in PATTERN_TYPES
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
        # happen notifies nobody.
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
