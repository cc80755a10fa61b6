"""The log directories that a reassignment plan names: asks brokers to move replicas there, and tells what is missing.

Used by `barnabas reassign` on the main thread; no state. Kafka: ReassignPartitionsCommand.alterReplicaLogDirs,
findLogDirMoveStates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.admin import Admin
    from barnabas.protocol.topic_partition import TopicPartition


def move_between_directories(admin: Admin, log_dirs: Mapping[int, Mapping[TopicPartition, str]]) -> list[str]:
    """Have each broker take its replicas into these directories; return a line for each refusal. Raises ApiError."""
    refused = []
    for broker_id, wanted in log_dirs.items():
        for place, error in sorted(admin.alter_replica_log_dirs(broker_id, wanted).items()):
            # A replica that the reassignment adds: the broker makes it in that directory.
            if error is not None and error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                where = f"{wanted[place]} of broker {broker_id}"
                refused.append(f"{place.topic}-{place.partition} cannot move to {where} ({error.code.name})")
    return refused


def directories_missing(admin: Admin, log_dirs: Mapping[int, Mapping[TopicPartition, str]]) -> list[str]:
    """Return a line for each replica that does not lie in its directory yet. Raises ApiError."""
    missing = []
    for broker_id, wanted in log_dirs.items():
        described = admin.describe_log_dirs(broker_id)
        for place, path in sorted(wanted.items()):
            infos = {each.path: each.replicas[place] for each in described if place in each.replicas}
            info = infos.get(path)
            if info is not None and not info.is_future:
                continue
            state = f"moving to {path}, {info.offset_lag} records are missing" if info else f"not in {path}"
            missing.append(f"{place.topic}\tpartition {place.partition}\tbroker {broker_id}\t{state}")
    return missing
