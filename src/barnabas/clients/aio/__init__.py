"""The clients for asyncio: `Producer`, on the core of the synchronous clients (decision 0031).

Settings, results and errors are those of `barnabas.clients.producer`.
"""

from barnabas.clients.aio.producer import Producer

__all__ = ["Producer"]
