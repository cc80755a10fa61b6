"""The schedule by which a client's view of the cluster is fetched again. Pure; times are passed in.

Owned by `ClusterMetadata`, whose condition guards it. Kafka: Metadata.
"""

from __future__ import annotations

from barnabas.rpc.exponential_backoff import ExponentialBackoff
from barnabas.rpc.metadata_updater import FOREVER_MS


class UpdateSchedule:
    """The due time of the next update; a view expires after `max_age_ms`. Times are monotonic milliseconds."""

    def __init__(self, max_age_ms: int, backoff: ExponentialBackoff) -> None:
        self.needs_full = True
        self.needs_partial = False
        self.version = 0
        """A number that rises with each request for new topics: the answer to an older request has none of them."""
        self._max_age_ms = max_age_ms
        self._backoff = backoff
        self._last_refresh_ms = -FOREVER_MS
        self._last_success_ms = -FOREVER_MS
        self._attempts = 0

    @property
    def is_requested(self) -> bool:
        """Whether a full or a partial update was requested."""
        return self.needs_full or self.needs_partial

    def request_partial(self) -> None:
        """Request an update with the new topics, without waiting for the backoff."""
        self.needs_partial = True
        self.version += 1
        self._last_refresh_ms = -FOREVER_MS

    def age_ms(self, now_ms: int) -> int | None:
        """Return the milliseconds since the last full answer, None before the first one."""
        return None if self._last_success_ms < 0 else now_ms - self._last_success_ms

    def is_expired(self, now_ms: int) -> bool:
        """Return whether the view is too old."""
        return self._last_success_ms + self._max_age_ms <= now_ms

    def wait_ms(self, now_ms: int) -> int:
        """Return the milliseconds until an update is due: 0 if one was requested, but never less than the backoff."""
        to_expire_ms = 0 if self.is_requested else max(self._last_success_ms + self._max_age_ms - now_ms, 0)
        # The backoff also holds for requested updates, or a cluster that does not answer would be asked in a busy loop.
        # Only new topics skip it, by `request_partial`: their users wait.
        backoff_ms = self._backoff.after(max(self._attempts - 1, 0))
        return max(to_expire_ms, self._last_refresh_ms + backoff_ms - now_ms, 0)

    def succeeded(self, version: int, now_ms: int, *, is_partial: bool) -> None:
        """Note an answer to the request of that `version`."""
        self.needs_partial = version < self.version
        self._last_refresh_ms = now_ms
        self._attempts = 0
        if not is_partial:
            self.needs_full = False
            self._last_success_ms = now_ms

    def failed(self, now_ms: int) -> None:
        """Note that a request got no usable answer: the next one waits for the backoff."""
        self._last_refresh_ms = now_ms
        self._attempts += 1
