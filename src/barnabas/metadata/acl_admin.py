"""The keeper of access control lists: it loads them, changes them in the store, and follows changes by others.

Made by `broker`. `start` runs on the main thread, before requests are read; changes come on request handlers' threads,
notices on a scheduler's. `_lock` guards `_versions` and serialises every change of the authorizer's lists, so that a
notice about an older version cannot undo a newer one: whatever is applied was read, or written, under the lock. It is
held while the store is asked; deciding takes no lock. Changes of clients are put into a queue, which one of the
scheduler's threads works off, so that no request handler waits for the store; `_queue_lock` guards the queue.
Kafka: AclAuthorizer.createAcls, deleteAcls, updateResourceAcls, processAclChangeNotification.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple, TypeVar

from barnabas.metadata.change_notice_listener import ChangeNoticeListener
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.runtime.clock import Clock
from barnabas.runtime.scheduler import Scheduler
from barnabas.security.acl.acl_authorizer import AclAuthorizer
from barnabas.security.acl.acl_binding import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    ResourcePattern,
    parse_principal,
)
from barnabas.security.acl.acl_codes import PatternType
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.znodes.acl_znodes import AclChangeZNode, VersionedAcls

logger = logging.getLogger(__name__)

MAX_RETRIES: Final = 10

T = TypeVar("T")
_Entries = frozenset[AccessControlEntry]


class DeletedAcl(NamedTuple):
    """A binding that a filter selected. error: why it is still there; None when it is gone."""

    binding: AclBinding
    error: ApiError | None


class AclAdmin:
    """The keeper. authorizer: the one that decides by these lists."""

    def __init__(self, zk_client: KafkaZkClient, authorizer: AclAuthorizer, scheduler: Scheduler, clock: Clock) -> None:
        self._znodes = zk_client.acls
        self._authorizer = authorizer
        self._scheduler = scheduler
        self._queue_lock = threading.Lock()
        self._queue: deque[Callable[[], None]] = deque()
        self._is_working = False
        self._lock = threading.Lock()
        self._versions: dict[ResourcePattern, int] = {}
        self._listeners = [
            ChangeNoticeListener(notices, partial(self._on_notice, how), scheduler, clock, f"acl-changes-{how.name}")
            for how, notices in self._znodes.notices.items()
        ]

    def start(self) -> None:
        """Load all lists, and follow their changes from now on.

        Raises ZnodeFormatError: a list cannot be understood, so that decisions could be wrong.
        """
        self._znodes.make_sure_paths_exist()
        # Loaded once both listen: a change of either kind is then among what is read, or its notice is handled.
        for listener in self._listeners:
            listener.start()
        self._load()

    def stop(self) -> None:
        """Stop following changes."""
        for listener in self._listeners:
            listener.stop()

    # -- the calls of clients

    def describe(self, selection: AclBindingFilter) -> list[AclBinding]:
        """Return the bindings that a filter selects, in order."""
        return sorted(each for each in self._authorizer.snapshot.bindings() if selection.matches(each))

    def create_soon(self, bindings: Sequence[AclBinding]) -> Future[list[ApiError | None]]:
        """Let another thread `create`; the future has what that returns."""
        return self._soon(partial(self.create, bindings))

    def delete_soon(self, filters: Sequence[AclBindingFilter]) -> Future[list[list[DeletedAcl]]]:
        """Let another thread `delete`; the future has what that returns."""
        return self._soon(partial(self.delete, filters))

    def create(self, bindings: Sequence[AclBinding]) -> list[ApiError | None]:
        """Add bindings, those of one pattern in one write. Return the error of each, in their order, or None.

        INVALID_REQUEST: a code is unknown, or a name has a slash. UNKNOWN_SERVER_ERROR: the principal has no type, or
        the list cannot be written.
        """
        errors: list[ApiError | None] = [None] * len(bindings)
        of_pattern: dict[ResourcePattern, list[int]] = {}
        for index, binding in enumerate(bindings):
            if binding.is_unknown or "/" in binding.pattern.name:
                errors[index] = ApiError(ErrorCode.INVALID_REQUEST, "Failed to create ACL")
            else:
                of_pattern.setdefault(binding.pattern, []).append(index)
        for pattern, indexes in of_pattern.items():
            error = self._add(pattern, [bindings[index].entry for index in indexes])
            for index in indexes:
                errors[index] = error
        return errors

    def delete(self, filters: Sequence[AclBindingFilter]) -> list[list[DeletedAcl]]:
        """Remove the bindings that filters select. Return for each filter its bindings, in order.

        A binding that several filters select belongs to the first of them.
        """
        results: list[list[DeletedAcl]] = [[] for _ in filters]
        # What equal filters select belongs to the first of them: the others need not be compared with every list.
        first: dict[AclBindingFilter, int] = {}
        for index, each in enumerate(filters):
            first.setdefault(each, index)
        distinct = [(index, each) for each, index in first.items()]
        with self._lock:
            named = (pattern for each in filters for pattern in each.pattern.only_patterns())
            for pattern in dict.fromkeys([*self._authorizer.snapshot.lists, *named]):
                indexes = [index for index, each in distinct if each.pattern.matches(pattern)]
                if indexes:
                    self._delete_from(pattern, filters, indexes, results)
        return [sorted(each, key=lambda deleted: deleted.binding) for each in results]

    # -- the queue

    def _soon(self, change: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = change()
            except BaseException as error:  # noqa: BLE001 - the request that waits for the future is told
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._queue_lock:
            self._queue.append(run)
            is_first, self._is_working = not self._is_working, True
        if is_first:
            self._scheduler.schedule("acl-changes", self._work_off)
        return future

    def _work_off(self) -> None:
        """Make the changes of the queue, one after the other: at most one thread is kept busy."""
        while True:
            with self._queue_lock:
                if not self._queue:
                    self._is_working = False
                    return
                run = self._queue.popleft()
            run()

    # -- changes

    def _add(self, pattern: ResourcePattern, entries: Iterable[AccessControlEntry]) -> ApiError | None:
        try:
            # As Kafka: one principal that cannot be parsed fails all new entries of the pattern.
            added = frozenset(entry._replace(principal=parse_principal(entry.principal)) for entry in entries)
            with self._lock:
                self._update(pattern, lambda current: current | added)
        except Exception as error:
            # Also an unavailable store: entries of other patterns are answered on their own.
            logger.exception("Failed to add access control entries to %s", pattern)
            return ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        return None

    def _delete_from(
        self,
        pattern: ResourcePattern,
        filters: Sequence[AclBindingFilter],
        indexes: Sequence[int],
        results: list[list[DeletedAcl]],
    ) -> None:
        """Remove what filters select of one pattern's entries, and add it to their results. Called with the lock."""
        owners: dict[AccessControlEntry, int] = {}

        def without_selected(current: _Entries) -> _Entries:
            for entry in current:
                owner = next((index for index in indexes if filters[index].entry.matches(entry)), None)
                if owner is not None:
                    owners.setdefault(entry, owner)
            return current - owners.keys()

        failure = None
        try:
            self._update(pattern, without_selected)
        except Exception as error:
            # Also an unavailable store: the entries of other patterns are answered on their own.
            logger.exception("Failed to delete access control entries of %s", pattern)
            failure = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
        for entry, index in owners.items():
            results[index].append(DeletedAcl(AclBinding(pattern, entry), failure))

    def _update(self, pattern: ResourcePattern, change: Callable[[_Entries], _Entries]) -> None:
        """Change a pattern's entries in the store and put them in force. Called with the lock.

        Another broker may write at the same time: the change is then made to what that broker wrote.
        Raises ApiError: UNKNOWN_SERVER_ERROR after MAX_RETRIES such writes. Raises StoreError, ZnodeFormatError.
        """
        known = self._authorizer.snapshot.lists.get(pattern)
        current = self._znodes.read(pattern) if known is None else VersionedAcls(known, self._versions.get(pattern))
        for _ in range(MAX_RETRIES + 1):
            entries = change(current.entries)
            if entries == current.entries:
                # Nothing to write; but it may have been read just now, by another broker's change.
                self._apply(pattern, current)
                return
            written = self._znodes.write(pattern, entries, current.version)
            if written is not None:
                logger.info("Updated ACLs for %s with new version %s", pattern, written.version)
                self._apply(pattern, written)
                return
            current = self._znodes.read(pattern)
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"Failed to update ACLs for {pattern} after trying a maximum of {MAX_RETRIES} times",
        )

    def _apply(self, pattern: ResourcePattern, acls: VersionedAcls) -> None:
        if acls.version is None:
            self._versions.pop(pattern, None)
        else:
            self._versions[pattern] = acls.version
        self._authorizer.replace(pattern, acls.entries)

    # -- changes by others

    def _load(self) -> None:
        with self._lock:
            found = {pattern: acls for pattern, acls in self._znodes.read_all().items() if acls.entries}
            self._versions = {pattern: acls.version for pattern, acls in found.items() if acls.version is not None}
            self._authorizer.replace_all({pattern: acls.entries for pattern, acls in found.items()})

    def _on_notice(self, pattern_type: PatternType, data: bytes) -> None:
        pattern = AclChangeZNode.decode(data, pattern_type)
        with self._lock:
            acls = self._znodes.read(pattern)
            logger.info("Processing Acl change notification for %s, zkVersion : %s", pattern, acls.version)
            self._apply(pattern, acls)
