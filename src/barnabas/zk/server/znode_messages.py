"""ZooKeeper's requests and answers as bytes, from the server's side, as far as brokers use them.

Used by `zk.server.store_server` on the threads of its connections; pure, so no lock.
ZooKeeper: org.apache.zookeeper.proto, FinalRequestProcessor.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from barnabas.zk.store.errors import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    StoreError,
    StoreFullError,
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
    Watch,
    WatchEvent,
    WatchEventType,
)

CREATE, DELETE, EXISTS, GET_DATA, SET_DATA, GET_CHILDREN = 1, 2, 3, 4, 5, 12
PING, CHECK, MULTI, CREATE_WITH_STAT, CLOSE_SESSION = 11, 13, 14, 15, -11
_EPHEMERAL, _SEQUENTIAL = 1, 2
_EVENT_XID: Final = -1
_CONNECTED: Final = 3
_ERROR: Final = -1
_UNIMPLEMENTED: Final = -6
_AFTER_THE_FAILURE: Final = -2
_MULTI_HEADER: Final = struct.Struct("!i?i")
_STAT: Final = struct.Struct("!qqqqiiiqiiq")
_CODES: Final[dict[type[StoreError], int]] = {
    StoreFullError: -1,
    BadArgumentsError: -8,
    NoNodeError: -101,
    BadVersionError: -103,
    NoChildrenForEphemeralsError: -108,
    NodeExistsError: -110,
    NotEmptyError: -111,
}
_EVENT_TYPES: Final = {
    WatchEventType.CREATED: 1,
    WatchEventType.DELETED: 2,
    WatchEventType.DATA_CHANGED: 3,
    WatchEventType.CHILDREN_CHANGED: 4,
}


class UnknownRequest(Exception):
    """The request is one that brokers do not send."""


class ConnectRequest(NamedTuple):
    """The first request of a connection. session_id: 0 asks for a new session."""

    timeout_ms: int
    session_id: int

    @classmethod
    def read(cls, frame: bytes) -> ConnectRequest:
        """Read a frame. Raises struct.error: it is too short."""
        _, _, timeout_ms, session_id = struct.unpack_from("!iqiq", frame)
        return cls(timeout_ms, session_id)

    def answer(self, session_id: int) -> bytes:
        """Return the answer. session_id: of the session; 0: the session that the client names has expired."""
        timeout_ms = self.timeout_ms if session_id else 0
        return struct.pack("!iiq", 0, timeout_ms, session_id) + _buffer(bytes(16)) + b"\0"


class _Reader:
    def __init__(self, data: bytes, offset: int) -> None:
        self._data = data
        self._offset = offset

    def take(self, layout: str) -> int:
        (value,) = struct.unpack_from("!" + layout, self._data, self._offset)
        self._offset += struct.calcsize("!" + layout)
        return int(value)

    def buffer(self) -> bytes:
        length = max(self.take("i"), 0)
        self._offset += length
        return self._data[self._offset - length : self._offset]

    def text(self) -> str:
        return self.buffer().decode()


def read_operation(kind: int, frame: bytes, offset: int, watch: Watch) -> Operation:
    """Read a request's body. watch: set if the request asks for one.

    Raises UnknownRequest: brokers send no such request. Raises struct.error: the frame is too short.
    """
    return _read(kind, _Reader(frame, offset), watch)


def _read(kind: int, body: _Reader, watch: Watch) -> Operation:
    if kind == MULTI:
        operations: list[Create | SetData | Delete | Check] = []
        while True:
            inner, is_done, _ = body.take("i"), body.take("?"), body.take("i")
            if is_done:
                return Multi(tuple(operations))
            operation = _read(inner, body, watch)
            if not isinstance(operation, Create | SetData | Delete | Check):
                raise UnknownRequest(f"a Multi with the request {inner}")
            operations.append(operation)
    path = body.text()
    if kind in (CREATE, CREATE_WITH_STAT):
        data = body.buffer()
        for _ in range(body.take("i")):
            # Access control lists: this store has none, and brokers ask for none.
            body.take("i"), body.text(), body.text()
        flags = body.take("i")
        return Create(path, data, bool(flags & _EPHEMERAL), bool(flags & _SEQUENTIAL))
    if kind == SET_DATA:
        return SetData(path, body.buffer(), body.take("i"))
    if kind == DELETE:
        return Delete(path, body.take("i"))
    if kind == CHECK:
        return Check(path, body.take("i"))
    if kind not in (EXISTS, GET_DATA, GET_CHILDREN):
        raise UnknownRequest(f"the request {kind}")
    asked = watch if body.take("?") else None
    if kind == GET_DATA:
        return GetData(path, asked)
    return Exists(path, asked) if kind == EXISTS else GetChildren(path, asked)


def answer(xid: int, operation: Operation | None, outcome: Outcome) -> bytes:
    """Return the frame of an answer. operation: None for a request without one (a ping)."""
    code = 0
    body = b""
    if isinstance(operation, Multi):
        body = _multi_answer(operation, outcome)
    elif isinstance(outcome, StoreError):
        code = code_of(outcome)
    elif isinstance(operation, Exists) and outcome is None:
        code = _CODES[NoNodeError]
    else:
        body = _result(outcome)
    return struct.pack("!iqi", xid, 0, code) + body


def event_frame(event: WatchEvent) -> bytes:
    """Return the frame of a fired watch."""
    header = struct.pack("!iqi", _EVENT_XID, -1, 0)
    return header + struct.pack("!ii", _EVENT_TYPES[event.type], _CONNECTED) + _buffer(event.path.encode())


def code_of(error: StoreError) -> int:
    """Return ZooKeeper's number of an error."""
    return _CODES.get(type(error), _UNIMPLEMENTED)


def _multi_answer(multi: Multi, outcome: Outcome) -> bytes:
    parts: list[bytes] = []
    if isinstance(outcome, StoreError):
        failed = outcome.operation_index or 0
        for index in range(len(multi.operations)):
            code = code_of(outcome) if index == failed else 0 if index < failed else _AFTER_THE_FAILURE
            parts.append(_MULTI_HEADER.pack(_ERROR, False, code) + struct.pack("!i", code))
    elif isinstance(outcome, list):
        kinds = {Create: CREATE_WITH_STAT, SetData: SET_DATA, Delete: DELETE, Check: CHECK}
        for operation, result in zip(multi.operations, outcome, strict=True):
            parts.append(_MULTI_HEADER.pack(kinds[type(operation)], False, 0) + _result(result))
    return b"".join(parts) + _MULTI_HEADER.pack(-1, True, -1)


def _result(result: Result | StoreError) -> bytes:
    if isinstance(result, Created):
        return _buffer(result.path.encode()) + _stat(result.stat)
    if isinstance(result, NodeData):
        return _buffer(result.data) + _stat(result.stat)
    if isinstance(result, Children):
        names = b"".join(_buffer(name.encode()) for name in result.names)
        return struct.pack("!i", len(result.names)) + names + _stat(result.stat)
    return _stat(result) if isinstance(result, Stat) else b""


def _buffer(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def _stat(stat: Stat) -> bytes:
    return _STAT.pack(
        stat.czxid,
        stat.mzxid,
        stat.ctime_ms,
        stat.mtime_ms,
        stat.version,
        stat.cversion,
        0,
        stat.ephemeral_owner,
        stat.data_length,
        stat.num_children,
        stat.pzxid,
    )
