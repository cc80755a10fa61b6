"""The rules for paths of znodes, as ZooKeeper's.

Pure functions, called by both stores on any thread. ZooKeeper: PathUtils.validatePath.
"""

from __future__ import annotations

from barnabas.zk.errors import BadArgumentsError


def parent_of(path: str) -> str:
    """Return the path of a znode's parent."""
    return path[: path.rindex("/")] or "/"


def check_path(path: str, *, sequential: bool = False) -> None:
    """Check a path. sequential: digits will be appended, so that it may end with a slash.

    Raises BadArgumentsError: the path is malformed.
    """
    if path == "/":
        return
    if not path.startswith("/"):
        raise BadArgumentsError(path, "must begin with a slash")
    if path.endswith("/") and not sequential:
        raise BadArgumentsError(path, "must not end with a slash")
    if any(part in ("", ".", "..") for part in path[1:].split("/")[: -1 if sequential else None]) or "\0" in path:
        raise BadArgumentsError(path, "has an empty, relative or null part")
