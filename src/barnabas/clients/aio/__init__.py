"""The clients for asyncio: `Producer`, `Consumer` and `Admin`, on the core of the synchronous ones (decision 0031).

Settings, results and errors are those of `barnabas.clients.producer`, `consumer` and `admin`.
"""

from barnabas.clients.aio.admin import Admin
from barnabas.clients.aio.consumer import Consumer
from barnabas.clients.aio.producer import Producer
from barnabas.clients.aio.rebalance_listener import AnyRebalanceListener, AsyncRebalanceListener

__all__ = ["Admin", "AnyRebalanceListener", "AsyncRebalanceListener", "Consumer", "Producer"]
