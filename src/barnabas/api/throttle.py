"""Charges requests to their clients, and mutes the connections of those that exceed a quota.

Made by `broker`, called by `Request.respond` and the handlers on whichever thread answers a request, through
`Handler.throttle`. That is set only while a quota is in force that the handler's requests are charged to, so without
quotas a request pays one attribute test. The answer leaves at once and says how long its connection stays muted
(KIP-219); the end of that time comes from the purgatory's timer, on the expiration executor's thread. No lock of its
own: the quota managers have theirs.

For example, a producer with a quota of 1 MB/s sends 30 MB in one second of a window of 11 samples of a second:

    charge        the rate is 30 MB over 10 s, 3 MB/s; the wait that brings it to 1 MB/s is 20 s
    answer        leaves at once, with throttle_time_ms 20,000; the connection is muted
    20 s later    the timer calls `end`, and the connection is read again

Kafka: RequestHandlerHelper, ThrottledChannel and its reaper, and the quota parts of KafkaApis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.api.request import Handler, Request
from barnabas.api.throttled_by import ThrottledBy
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.message import Message
from barnabas.purgatory.timer import SystemTimer
from barnabas.quota.client_quota_manager import ClientQuotaManager
from barnabas.quota.quota_managers import QuotaManagers
from barnabas.runtime.clock import Clock

if TYPE_CHECKING:
    from barnabas.quota.controller_mutation_quota import ControllerMutationQuota

THROTTLE_TIME: Final = "throttle_time_ms"
"""The field of most answers that says how long the client is throttled."""
NOT_A_BROKER: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
"""The answer to a client that sends a broker-only request. Such requests are not exempt from quotas."""


class QuotaThrottle:
    """The `request.Throttle` of a broker. clock: the one of the requests' time stamps."""

    def __init__(self, quotas: QuotaManagers, timer: SystemTimer, clock: Clock) -> None:
        self._quotas = quotas
        self._timer = timer
        self._now = clock.nanoseconds
        self._handlers: tuple[Handler, ...] = ()
        self._charged: Mapping[ThrottledBy, tuple[ClientQuotaManager, ...]] = {
            ThrottledBy.REQUEST: (quotas.request,),
            # Nothing is charged, but the time of such requests is counted for `exempt-request-time`.
            ThrottledBy.NOTHING: (quotas.request,),
            ThrottledBy.PRODUCE: (quotas.produce, quotas.request),
            ThrottledBy.FETCH: (quotas.fetch, quotas.request),
            ThrottledBy.CONTROLLER_MUTATION: (quotas.controller_mutation, quotas.request),
            ThrottledBy.CREATION: (quotas.controller_mutation, quotas.request),
        }

    def guard(self, handlers: Iterable[Handler]) -> None:
        """Charge the requests of these handlers, from now on and as quotas come and go."""
        self._handlers = tuple(handlers)
        # Subscribed first: a quota that is set between the two calls is seen by one of them at least.
        self._quotas.on_change(self.quotas_changed)
        self.quotas_changed()

    def quotas_changed(self) -> None:
        """Set `Handler.throttle` where there is a quota to charge, unset it where there is none."""
        for handler in self._handlers:
            managers = self._charged[handler.throttled_by]
            handler.throttle = self if any(manager.is_enabled for manager in managers) else None

    # -- request.Throttle

    def charge(self, request: Request[Any], response: Message | None) -> None:
        """Charge `request`, unless its handler did, before it is answered; None: it gets no answer.

        Kafka: sendResponseMaybeThrottle, sendResponseExemptThrottle, handleProduceRequest.
        """
        if request.record_network_time is not None or request.throttle_time_ms:
            return  # its handler had it charged; a quota that came up since must not mute the connection once more
        kind = request.handler.throttled_by
        # A client that is no broker is charged: refusing its requests takes time, too.
        if kind is ThrottledBy.NOTHING and getattr(response, "error_code", 0) != NOT_A_BROKER:
            self.exempt(request)
            return
        bandwidth_ms = self._charge_produce(request) if kind is ThrottledBy.PRODUCE else 0
        if response is None:
            # The time of a request without an answer is exempt: its client would not hear that it is throttled.
            self.exempt(request)
            request_ms = 0
        else:
            request_ms = self._charge_time(request)
        # Before the answer is encoded, which says the throttle time, and before it is sent: the connection stays muted.
        self._throttle(request, self._quotas.produce, bandwidth_ms, request_ms)
        _set_throttle_time(request, response)

    def exempt(self, request: Request[Any]) -> None:
        """Count the time that a broker's request took, without charging a client for it.

        Kafka: maybeRecordExempt.
        """
        quota = self._quotas.request
        if not quota.is_enabled:
            return
        now_ms = self._quotas.now_ms

        def record(time_ns: int) -> None:
            quota.record_exempt(time_ns, now_ms())

        # Set first: it also tells `charge` that the request is accounted for.
        request.record_network_time = record
        record(self._thread_time_ns(request))

    def charge_fetch(self, request: Request[Any], size: int) -> int:
        """Charge a consumer for the request's time and for `size` bytes about to be sent; return the throttle time.

        Bytes that are not sent are not counted: above the quota they are subtracted again.
        """
        fetch = self._quotas.fetch
        request_ms = self._charge_time(request)
        if not fetch.is_enabled:
            self._throttle(request, fetch, 0, request_ms)
            return request_ms
        user, client_id, now_ms = *_client_of(request), self._quotas.now_ms()
        bandwidth_ms = fetch.record_and_get_throttle_time_ms(user, client_id, size, now_ms)
        # The quotas are not added up, as in Kafka: the longer wait covers the shorter one.
        throttle_time_ms = max(bandwidth_ms, request_ms)
        # Above the quota the answer goes out empty. The bytes are taken back, or the client would wait for them twice.
        if throttle_time_ms > 0:
            fetch.record_no_throttle(user, client_id, -size, now_ms)
            self._throttle(request, fetch, bandwidth_ms, request_ms)
        return throttle_time_ms

    def max_fetch_bytes(self, request: Request[Any]) -> int | None:
        """Return the most that a consumer may fetch at once, None without a quota."""
        fetch = self._quotas.fetch
        return int(fetch.max_value_in_quota_window(*_client_of(request))) if fetch.is_enabled else None

    def mutation_quota(self, request: Request[Any], strict_since: int) -> ControllerMutationQuota:
        """Return what `request` may create and delete. From version `strict_since` on it may be refused."""
        strict = request.api_version >= strict_since
        return self._quotas.controller_mutation.quota_for(*_client_of(request), strict=strict)

    def charge_mutations(self, request: Request[Any], quota: ControllerMutationQuota, response: Message) -> None:
        """Charge a request that changed topics, before it is answered by `response`.

        Kafka: sendResponseMaybeThrottleWithControllerQuota.
        """
        controller_ms = quota.throttle_time_ms()
        request_ms = self._charge_time(request)
        self._throttle(request, self._quotas.controller_mutation, controller_ms, request_ms)
        _set_throttle_time(request, response)

    # -- steps

    def _charge_produce(self, request: Request[Any]) -> int:
        produce = self._quotas.produce
        if not produce.is_enabled:
            return 0
        now_ms = self._quotas.now_ms()
        size: int = request.request_size
        return produce.record_and_get_throttle_time_ms(*_client_of(request), size, now_ms)

    def _charge_time(self, request: Request[Any]) -> int:
        """Charge the thread time spent so far now, and the network thread's time when that is known."""
        quota = self._quotas.request
        if not quota.is_enabled:
            return 0
        user, client_id = _client_of(request)
        now_ms = self._quotas.now_ms
        request.record_network_time = lambda time_ns: quota.record_network_time(user, client_id, time_ns, now_ms())
        time_ns = self._thread_time_ns(request)
        return quota.record_time_and_get_throttle_time_ms(user, client_id, time_ns, now_ms())

    def _thread_time_ns(self, request: Request[Any]) -> int:
        if request.local_complete_ns == 0:
            # The handler has not returned yet, but its time is charged now: `Apis.handle` keeps a stamp that is set.
            request.local_complete_ns = self._now()
        return max(0, request.local_complete_ns - request.dequeued_ns)

    def _throttle(self, request: Request[Any], manager: ClientQuotaManager, wait_ms: int, request_ms: int) -> None:
        """Mute the connection for the longer of two times: the one of `manager`, and the one of the request quota."""
        # One connection is muted for one quota, whose metrics show the throttle time.
        if wait_ms <= request_ms:
            manager, wait_ms = self._quotas.request, request_ms
        if wait_ms <= 0:
            return
        channel = request.channel
        request.throttle_time_ms = wait_ms
        manager.throttling_started(*_client_of(request), wait_ms, self._quotas.now_ms())
        channel.start_throttling(request)

        def end() -> None:
            manager.throttling_ended()
            channel.end_throttling(request)

        self._timer.add(wait_ms, end)


def mutation_quota(request: Request[Any], strict_since: int) -> ControllerMutationQuota:
    """Return what `request` may create or delete; from version `strict_since` on clients know the error that
    refuses."""
    throttle = request.handler.throttle
    if throttle is not None:
        return throttle.mutation_quota(request, strict_since)
    from barnabas.quota.controller_mutation_quota import UNBOUNDED  # noqa: PLC0415 as QuotaManagers does

    return UNBOUNDED


def respond_with_quota(request: Request[Any], quota: ControllerMutationQuota, response: Message) -> None:
    """Answer a request that changed topics; its connection is muted if `quota` was exceeded."""
    throttle = request.handler.throttle
    if throttle is not None:
        throttle.charge_mutations(request, quota, response)
    request.respond(response)


def _client_of(request: Request[Any]) -> tuple[str, str]:
    """Return user and client id."""
    return request.connection.principal.partition(":")[2], request.header.client_id or ""


def _set_throttle_time(request: Request[Any], response: Message | None) -> None:
    """Set the throttle time, if the answer has a field for it."""
    if request.throttle_time_ms and response is not None and hasattr(response, THROTTLE_TIME):
        setattr(response, THROTTLE_TIME, request.throttle_time_ms)
