"""The admin client for asyncio: the calls of `barnabas.clients.admin.Admin`, awaited.

Owned by the event loop on which it was started. A thread of this client owns the synchronous one and runs its calls in
their order (`call_thread`; decision 0031). Kafka: KafkaAdminClient.

    async with Admin("localhost:9092") as admin:
        await admin.create_topics([NewTopic("flights", num_partitions=4)])
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from barnabas.clients.admin.admin import Admin as CoreAdmin
from barnabas.clients.aio.call_thread import CallThread
from barnabas.clients.errors import ClientClosed
from barnabas.clients.settings.client_config import ClientConfig

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(
    method: Callable[Concatenate[CoreAdmin, P], T],
) -> Callable[Concatenate[Admin, P], Coroutine[Any, Any, T]]:
    """Return the coroutine function that runs a method of the core on the client's thread."""

    @wraps(method)
    async def call(self: Admin, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._run(lambda admin: method(admin, *args, **kwargs))

    return call


class Admin:
    """An admin client with the arguments of the synchronous one. `start` it before use.

    One call runs after another; each is bounded by `timeout_ms`. A call that is cancelled before its turn does nothing;
    later it may have its effect all the same. Calls raise what those of the synchronous client raise, RuntimeError
    before `start`, ClientClosed after `stop`.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        *,
        client_id: str = "barnabas-admin",
        timeout_ms: int = 60_000,
        request_timeout_ms: int = 30_000,
        config: ClientConfig | None = None,
        make: Callable[..., CoreAdmin] = CoreAdmin,
    ) -> None:
        self._make_core = partial(
            make,
            bootstrap_servers,
            client_id=client_id,
            timeout_ms=timeout_ms,
            request_timeout_ms=request_timeout_ms,
            config=config,
        )
        self._thread: CallThread | None = None
        self._core: CoreAdmin | None = None
        self._is_stopped = False

    async def start(self) -> None:
        """Make the client's thread. Brokers are looked for by the first call. Raises RuntimeError if started before."""
        if self._thread is not None:
            raise RuntimeError("The admin client has been started already")
        self._thread = thread = CallThread(asyncio.get_running_loop(), "barnabas-aio-admin")
        try:
            self._core = await thread.start(self._make_core)
        except BaseException:
            self._is_stopped = True
            raise

    async def stop(self) -> None:
        """Close the connections and end the thread, after the calls that were awaited before. Idempotent."""
        thread, admin = self._thread, self._core
        if self._is_stopped or thread is None or admin is None:
            return
        self._is_stopped = True
        closing = thread.submit(admin.close)
        thread.end()
        await asyncio.shield(closing)
        await thread.join()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def _run(self, call: Callable[[CoreAdmin], T]) -> T:
        if self._is_stopped:
            raise ClientClosed("This client has already been closed.")
        admin = self._core
        if self._thread is None or admin is None:
            raise RuntimeError("Call `start`, or use `async with`, before the admin client is used")
        if asyncio.get_running_loop() is not self._thread.loop:
            raise RuntimeError("This admin client belongs to another event loop: make one for each loop")
        return await self._thread.run(lambda: call(admin))

    metrics = _awaited(CoreAdmin.metrics)

    # -- topics

    create_topics = _awaited(CoreAdmin.create_topics)
    delete_topics = _awaited(CoreAdmin.delete_topics)
    list_topics = _awaited(CoreAdmin.list_topics)
    describe_topics = _awaited(CoreAdmin.describe_topics)
    create_partitions = _awaited(CoreAdmin.create_partitions)
    elect_leaders = _awaited(CoreAdmin.elect_leaders)
    alter_partition_reassignments = _awaited(CoreAdmin.alter_partition_reassignments)
    list_partition_reassignments = _awaited(CoreAdmin.list_partition_reassignments)

    # -- the cluster

    describe_cluster = _awaited(CoreAdmin.describe_cluster)
    describe_features = _awaited(CoreAdmin.describe_features)
    update_features = _awaited(CoreAdmin.update_features)
    unregister_broker = _awaited(CoreAdmin.unregister_broker)
    alter_user_scram_credentials = _awaited(CoreAdmin.alter_user_scram_credentials)
    describe_user_scram_credentials = _awaited(CoreAdmin.describe_user_scram_credentials)
    describe_client_quotas = _awaited(CoreAdmin.describe_client_quotas)
    alter_client_quotas = _awaited(CoreAdmin.alter_client_quotas)

    # -- access control lists

    create_acls = _awaited(CoreAdmin.create_acls)
    describe_acls = _awaited(CoreAdmin.describe_acls)
    delete_acls = _awaited(CoreAdmin.delete_acls)

    # -- delegation tokens

    create_delegation_token = _awaited(CoreAdmin.create_delegation_token)
    renew_delegation_token = _awaited(CoreAdmin.renew_delegation_token)
    expire_delegation_token = _awaited(CoreAdmin.expire_delegation_token)
    describe_delegation_tokens = _awaited(CoreAdmin.describe_delegation_tokens)

    # -- groups

    list_groups = _awaited(CoreAdmin.list_groups)
    describe_groups = _awaited(CoreAdmin.describe_groups)
    delete_groups = _awaited(CoreAdmin.delete_groups)
    remove_group_members = _awaited(CoreAdmin.remove_group_members)
    list_group_offsets = _awaited(CoreAdmin.list_group_offsets)
    alter_group_offsets = _awaited(CoreAdmin.alter_group_offsets)
    delete_group_offsets = _awaited(CoreAdmin.delete_group_offsets)

    # -- transactions

    list_transactions = _awaited(CoreAdmin.list_transactions)
    describe_transactions = _awaited(CoreAdmin.describe_transactions)
    fence_producers = _awaited(CoreAdmin.fence_producers)
    end_transaction = _awaited(CoreAdmin.end_transaction)
    abort_transaction = _awaited(CoreAdmin.abort_transaction)

    # -- settings

    describe_topic_configs = _awaited(CoreAdmin.describe_topic_configs)
    describe_broker_configs = _awaited(CoreAdmin.describe_broker_configs)
    describe_configs = _awaited(CoreAdmin.describe_configs)
    list_config_resources = _awaited(CoreAdmin.list_config_resources)
    incremental_alter_configs = _awaited(CoreAdmin.incremental_alter_configs)

    # -- records and replicas

    delete_records = _awaited(CoreAdmin.delete_records)
    describe_producers = _awaited(CoreAdmin.describe_producers)
    describe_log_dirs = _awaited(CoreAdmin.describe_log_dirs)
    alter_replica_log_dirs = _awaited(CoreAdmin.alter_replica_log_dirs)
    replica_end_offsets = _awaited(CoreAdmin.replica_end_offsets)
    list_offsets = _awaited(CoreAdmin.list_offsets)
