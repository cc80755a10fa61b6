"""The asyncio admin client: every call of the synchronous one, awaited."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

from barnabas.clients.admin import Admin as CoreAdmin
from barnabas.clients.aio import Admin
from barnabas.clients.errors import ClientClosed
from tests.support.scripted_cluster import ScriptedCluster


def test_every_call_of_the_core_is_there_as_a_coroutine() -> None:
    calls = {name for name, _ in inspect.getmembers(CoreAdmin, inspect.isfunction) if name[0] != "_"}
    calls.remove("close")
    assert len(calls) > 25
    for name in calls:
        member = getattr(Admin, name)
        assert inspect.iscoroutinefunction(member), name
        assert inspect.signature(member) == inspect.signature(getattr(CoreAdmin, name)), name


def test_a_call_its_results_and_errors() -> None:
    cluster = ScriptedCluster({"t": [0, 0]})

    def make(_servers: str, **_settings: object) -> CoreAdmin:
        return CoreAdmin("", client=cluster.client())

    async def main() -> None:
        admin = Admin("", make=make)
        with pytest.raises(RuntimeError, match="start"):
            await admin.list_topics()
        async with admin:
            assert await admin.list_topics(include_internal=True) == ["t"]
            assert [node.id for node in (await admin.describe_cluster()).nodes] == [0]
            both = await asyncio.gather(admin.list_topics(), admin.describe_cluster())
            assert both[0] == ["t"]
            with pytest.raises(TypeError):
                await admin.list_topics("t")  # type: ignore[arg-type, call-arg]
            with pytest.raises(RuntimeError, match="started already"):
                await admin.start()
        await admin.stop()
        with pytest.raises(ClientClosed):
            await admin.list_topics()

    before = set(threading.enumerate())
    asyncio.run(main())
    assert set(threading.enumerate()) <= before


def test_a_core_that_cannot_be_made() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="port"):
            await Admin("no-port").start()
        assert set(threading.enumerate()) <= before, "a start that fails leaves no thread"

    before = set(threading.enumerate())
    asyncio.run(main())
