"""The store's operations as ZooKeeper's requests, access control lists included, and its answers as results.

Used by `zk.zookeeper.zookeeper_store`, on the callers' threads and on that of kazoo's connection; pure, so no lock.
kazoo has the formats of the single requests. Two are here: kazoo's Multi loses the Stat of a created znode, and kazoo
has no SetWatches, by which ZooKeeper sets the watches of a session again after a lost connection, and fires those whose
change happened in between.

Kafka: ZkData.defaultAcls. ZooKeeper: org.apache.zookeeper.proto, MultiOperationRecord, MultiResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from kazoo import exceptions as kazoo_errors
from kazoo.protocol import serialization as wire
from kazoo.protocol.states import ZnodeStat
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from barnabas.zk.store.errors import (
    AccessDeniedError,
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreError,
    StoreFullError,
    StoreUnavailableError,
)
from barnabas.zk.store.store import (
    Check,
    Children,
    Create,
    Created,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    NodeData,
    Operation,
    Outcome,
    Result,
    SetData,
    Stat,
    check_path,
)
from barnabas.zk.znodes.config_znodes import ConfigEntityType, ConfigEntityTypeZNode
from barnabas.zk.znodes.token_znodes import DelegationTokensZNode

SENSITIVE_PATHS: Final = (
    ConfigEntityTypeZNode.path(ConfigEntityType.USER),
    ConfigEntityTypeZNode.path(ConfigEntityType.BROKER),
    DelegationTokensZNode.path,
)
"""Znodes whose path begins with one of these are for the brokers alone."""
_OPEN_PATH: Final = "/consumers"
_EPHEMERAL: Final = 1
_SEQUENTIAL: Final = 2
_SET_WATCHES: Final = 101
_WATCHES_A_REQUEST: Final = 1_000
_ERROR: Final = -1
# A failed Multi answers one of these for each operation that did not fail itself: those before it, and those after it.
_WITHOUT_FAILURE: Final = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
_ERRORS: Final[dict[type[Exception], type[StoreError]]] = {
    kazoo_errors.NoNodeError: NoNodeError,
    kazoo_errors.NodeExistsError: NodeExistsError,
    kazoo_errors.BadVersionError: BadVersionError,
    kazoo_errors.NotEmptyError: NotEmptyError,
    kazoo_errors.NoChildrenForEphemeralsError: NoChildrenForEphemeralsError,
    kazoo_errors.BadArgumentsError: BadArgumentsError,
    # ZooKeeper never answers it: the store of `serve --processes` does when its disk is full.
    kazoo_errors.SystemZookeeperError: StoreFullError,
    kazoo_errors.ConnectionClosedError: StoreUnavailableError,
    kazoo_errors.ConnectionLoss: StoreUnavailableError,
    kazoo_errors.SessionExpiredError: StoreUnavailableError,
    kazoo_errors.AuthFailedError: StoreUnavailableError,
}

_DENIALS: Final = {
    kazoo_errors.NoAuthError: "is denied to this session by its access control list: the user of "
    "zookeeper.sasl.jaas.config, or of the certificate in zookeeper.ssl.keystore.location, is missing or another one",
    kazoo_errors.InvalidACLError: "cannot be given an access control list: ZooKeeper knows no user of this session "
    "(zookeeper.set.acl needs zookeeper.sasl.jaas.config, or zookeeper.ssl.keystore.location)",
}

WireRequest = Any
"""A request in kazoo's form: it has a number (`type`), and writes itself and reads its answer."""


@dataclass(frozen=True, slots=True)
class MultiRequest:
    """ZooKeeper's Multi, whose answer has the Stat of each created znode. operations: in kazoo's form."""

    operations: tuple[WireRequest, ...]
    type: ClassVar[int] = wire.Transaction.type

    def serialize(self) -> bytes:
        """Return the request's body."""
        return bytes(wire.Transaction(self.operations).serialize())

    def deserialize(self, data: bytes, offset: int) -> list[Any]:
        """Return the result of each operation; an exception for each one if the Multi failed."""
        results: list[Any] = []
        header, offset = wire.MultiHeader.deserialize(data, offset)
        while not header.done:
            if header.type == _ERROR:
                (code,) = wire.int_struct.unpack_from(data, offset)
                offset += wire.int_struct.size
                results.append(kazoo_errors.EXCEPTIONS[code]())
            elif header.type == wire.Create2.type:
                path, offset = wire.read_string(data, offset)
                results.append((path, ZnodeStat._make(wire.stat_struct.unpack_from(data, offset))))
                offset += wire.stat_struct.size
            elif header.type == wire.SetData.type:
                results.append(ZnodeStat._make(wire.stat_struct.unpack_from(data, offset)))
                offset += wire.stat_struct.size
            else:
                results.append(None)
            header, offset = wire.MultiHeader.deserialize(data, offset)
        return results


@dataclass(frozen=True, slots=True)
class SetWatchesRequest:
    """Watches that are set again, by their kind. zxid: the last change that this session has seen."""

    zxid: int
    data: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    type: ClassVar[int] = _SET_WATCHES

    def serialize(self) -> bytes:
        """Return the request's body."""
        body = [struct.pack("!q", self.zxid)]
        for paths in (self.data, self.exists, self.children):
            body += [struct.pack("!i", len(paths)), *(wire.write_string(path) for path in paths)]
        return b"".join(body)

    def deserialize(self, _data: bytes, _offset: int) -> None:
        """Read nothing: the answer is empty."""


def set_watches(
    zxid: int, data: Sequence[str], exists: Sequence[str], children: Sequence[str]
) -> list[SetWatchesRequest]:
    """Return the requests that set all these watches again; each stays below ZooKeeper's limit of 1 MB."""
    return [
        SetWatchesRequest(zxid, **{kind: tuple(paths[start : start + _WATCHES_A_REQUEST])})
        for kind, paths in (("data", data), ("exists", exists), ("children", children))
        for start in range(0, len(paths), _WATCHES_A_REQUEST)
    ]


def request_of(operation: Operation, chroot: str, watcher: Any, *, is_secure: bool = False) -> WireRequest:
    """Return the request for an operation. watcher: called by kazoo if the operation sets a watch.

    is_secure: whether a new znode gets an access control list. Raises BadArgumentsError: the path is malformed.
    """
    if isinstance(operation, Multi):
        requests = (request_of(each, chroot, None, is_secure=is_secure) for each in operation.operations)
        return MultiRequest(tuple(requests))
    if isinstance(operation, Check):
        check_path(operation.path)
        return wire.CheckVersion(absolute_path(chroot, operation.path), operation.version)
    check_path(operation.path, sequential=isinstance(operation, Create) and operation.sequential)
    path = absolute_path(chroot, operation.path)
    if isinstance(operation, Create):
        flags = _EPHEMERAL * operation.ephemeral | _SEQUENTIAL * operation.sequential
        return wire.Create2(path, operation.data, acls_of(operation.path, is_secure=is_secure), flags)
    if isinstance(operation, SetData):
        return wire.SetData(path, operation.data, operation.version)
    if isinstance(operation, Delete):
        if operation.path == "/":
            raise BadArgumentsError("/", "can't be deleted")
        return wire.Delete(path, operation.version)
    asked = None if operation.watch is None else watcher
    if isinstance(operation, GetData):
        return wire.GetData(path, asked)
    return wire.GetChildren2(path, asked) if isinstance(operation, GetChildren) else wire.Exists(path, asked)


def acls_of(path: str, *, is_secure: bool) -> list[ACL]:
    """Return the access control list of a new znode, by path: that of Apache Kafka. path: without the chroot.

    With `zookeeper.set.acl=true` (is_secure) a znode belongs to the users of the session that creates it (by login, or
    by the certificate of a TLS connection), and every client may read it, unless it has secrets: passwords of users and
    key stores, tokens. ZooKeeper refuses to create such a znode for a session without a user. `/consumers` stays open,
    since old consumers wrote there. Lists are set when a znode is created, and never changed: znodes of an older
    cluster are given theirs by Kafka's zookeeper-security-migration.
    """
    if not is_secure or path == _OPEN_PATH:
        return list(OPEN_ACL_UNSAFE)
    if path.startswith(SENSITIVE_PATHS):
        return list(CREATOR_ALL_ACL)
    return [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def outcome_of(operation: Operation, answer: Any, chroot: str) -> Outcome:
    """Return the outcome of an operation. answer: what kazoo has read, or the exception in its place."""
    if isinstance(answer, Exception):
        return _error_of(operation, answer)
    if isinstance(operation, Multi):
        for index, result in enumerate(answer):
            if isinstance(result, Exception) and not isinstance(result, _WITHOUT_FAILURE):
                error = _error_of(operation.operations[index], result)
                error.operation_index = index
                return error
        return [_result_of(each, result, chroot) for each, result in zip(operation.operations, answer, strict=True)]
    return _result_of(operation, answer, chroot)


def _result_of(operation: Operation, answer: Any, chroot: str) -> Result:
    if isinstance(operation, Create):
        path, stat = answer
        return Created(path[len(chroot) :], _stat(stat))
    if isinstance(operation, SetData):
        return _stat(answer)
    if isinstance(operation, GetData):
        data, stat = answer
        return NodeData(data or b"", _stat(stat))
    if isinstance(operation, GetChildren):
        names, stat = answer
        # ZooKeeper promises no order.
        return Children(sorted(names), _stat(stat))
    return None if answer is None or not isinstance(operation, Exists) else _stat(answer)


def _error_of(operation: Operation, error: Exception) -> StoreError:
    path = "" if isinstance(operation, Multi) else operation.path
    if (denial := _DENIALS.get(type(error))) is not None:
        return AccessDeniedError(path, denial)
    known = _ERRORS.get(type(error))
    return StoreError(path, f"failed: {error!r}") if known is None else known(path)


def absolute_path(chroot: str, path: str) -> str:
    """Return the path in ZooKeeper of a path below the chroot."""
    return path if not chroot else chroot if path == "/" else chroot + path


def _stat(found: ZnodeStat) -> Stat:
    return Stat(
        czxid=found.czxid,
        mzxid=found.mzxid,
        pzxid=found.pzxid,
        ctime_ms=found.ctime,
        mtime_ms=found.mtime,
        version=found.version,
        cversion=found.cversion,
        ephemeral_owner=found.ephemeralOwner or 0,
        data_length=found.dataLength,
        num_children=found.numChildren,
    )
