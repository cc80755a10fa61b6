"""Any batches on the sqlite table give what the same operations give on a plain dictionary, and survive reopening."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.zk.store import errors
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
    SetData,
    Stat,
)
from barnabas.zk.store.znode_table import ZnodeTable, open_database
from tests.support.mock_clock import MockClock

SESSIONS = (1, 2)
_paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/1", "/b/x"])
_data = st.binary(max_size=3)
_versions = st.integers(-1, 2)
_writes = st.one_of(
    st.builds(Create, _paths, _data, st.booleans(), st.booleans()),
    st.builds(SetData, _paths, _data, _versions),
    st.builds(Delete, _paths, _versions),
    st.builds(Check, _paths, _versions),
)
_operations = st.one_of(
    _writes,
    st.builds(Multi, st.lists(_writes, max_size=4).map(tuple)),
    st.builds(GetData, _paths),
    st.builds(GetChildren, _paths),
    st.builds(Exists, _paths),
)
_steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(SESSIONS), st.lists(_operations, max_size=5)),
        st.tuples(st.sampled_from(SESSIONS), st.none()),  # the session ends
    ),
    max_size=12,
)


@dataclass
class Node:
    data: bytes
    owner: int = 0
    version: int = 0
    creates: int = 0


class Model:
    """ZooKeeper's rules on a dictionary of paths."""

    def __init__(self) -> None:
        self.nodes = {"/": Node(b"")}

    def apply(self, session: int, operation: Operation) -> object:
        """What can be compared: a path, (data, version), names, a version, None, or the class of the error."""
        if isinstance(operation, Multi):
            before = {path: Node(**vars(node)) for path, node in self.nodes.items()}
            results = []
            for index, single in enumerate(operation.operations):
                result = self.apply(session, single)
                if isinstance(result, type):
                    self.nodes = before
                    return (result, index)
                results.append(result)
            return results
        if isinstance(operation, Create):
            return self.create(session, operation)
        node = self.nodes.get(operation.path)
        if node is None:
            return None if isinstance(operation, Exists) else errors.NoNodeError
        if isinstance(operation, (SetData, Delete, Check)) and operation.version not in (-1, node.version):
            return errors.BadVersionError
        if isinstance(operation, SetData):
            node.data, node.version = operation.data, node.version + 1
            return node.version
        if isinstance(operation, Delete):
            if self.children(operation.path):
                return errors.NotEmptyError
            del self.nodes[operation.path]
        elif isinstance(operation, GetData):
            return (node.data, node.version)
        elif isinstance(operation, GetChildren):
            return self.children(operation.path)
        elif isinstance(operation, Exists):
            return node.version
        return None

    def create(self, session: int, operation: Create) -> object:
        parent = self.nodes.get(operation.path.rpartition("/")[0] or "/")
        if parent is None:
            return errors.NoNodeError
        if parent.owner:
            return errors.NoChildrenForEphemeralsError
        path = operation.path + (f"{parent.creates:010d}" if operation.sequential else "")
        if path in self.nodes:
            return errors.NodeExistsError
        parent.creates += 1
        self.nodes[path] = Node(operation.data, session if operation.ephemeral else 0)
        return path

    def children(self, path: str) -> list[str]:
        start = path.rstrip("/") + "/"
        below = (found[len(start) :] for found in self.nodes if found.startswith(start) and found != "/")
        return sorted(name for name in below if "/" not in name)

    def end_session(self, session: int | None) -> None:
        """None: every session."""
        ended = SESSIONS if session is None else (session,)
        self.nodes = {path: node for path, node in self.nodes.items() if node.owner not in ended}


def comparable(outcome: Outcome) -> object:
    if isinstance(outcome, errors.StoreError):
        kind = type(outcome)
        return kind if outcome.operation_index is None else (kind, outcome.operation_index)
    if isinstance(outcome, Created):
        return outcome.path
    if isinstance(outcome, NodeData):
        return (outcome.data, outcome.stat.version)
    if isinstance(outcome, Children):
        assert outcome.stat.num_children == len(outcome.names)
        return outcome.names
    if isinstance(outcome, Stat):
        return outcome.version
    if isinstance(outcome, list):
        return [comparable(single) for single in outcome]
    return None


@settings(max_examples=150, deadline=None)
@given(_steps)
def test_the_table_does_what_a_dictionary_does(steps: list[tuple[int, list[Operation] | None]]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        table, model = ZnodeTable(open_database(directory), MockClock()), Model()
        for session, operations in steps:
            if operations is None:
                table.end_session(session)
                model.end_session(session)
            else:
                outcomes, _ = table.apply(session, operations)
                assert [comparable(o) for o in outcomes] == [model.apply(session, o) for o in operations]
        table.close()
        reopened = ZnodeTable(open_database(directory), MockClock())
        reopened.delete_ephemerals()
        model.end_session(None)
        for path, node in model.nodes.items():
            (found, names), _ = reopened.apply(1, [GetData(path), GetChildren(path)])
            assert comparable(found) == (node.data, node.version)
            assert comparable(names) == model.children(path)
        reopened.close()


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(_operations, max_size=4), max_size=8))
def test_a_watch_fires_wherever_what_was_read_changes(batches: list[list[Operation]]) -> None:
    """Before each batch everything is read with a watch; where a second read then differs, a watch fired."""
    table = ZnodeTable(open_database(None), MockClock())
    paths = ["/a", "/b", "/a/x", "/a/y", "/a/x/1", "/b/x"]
    for batch in batches:
        data_before = {path: _stat(table, Exists(path, lambda event: None)) for path in paths}
        children_before = {path: _children(table, path) for path in paths}
        _, watches = table.apply(1, batch)
        fired = [watch.event.path for watch in watches]
        for path in paths:
            after = _stat(table, Exists(path))
            if data_before[path] != after or children_before[path] != _children(table, path):
                assert path in fired
        table.end_session(1)  # drops the watches that are left
    table.close()


def _stat(table: ZnodeTable, operation: Exists) -> tuple[int, int] | None:
    (outcome,), _ = table.apply(1, [operation])
    return (outcome.czxid, outcome.mzxid) if isinstance(outcome, Stat) else None


def _children(table: ZnodeTable, path: str) -> object:
    (outcome,), _ = table.apply(1, [GetChildren(path, lambda event: None)])
    return comparable(outcome)
