"""The clients for asyncio: `Producer` and `Consumer`, on the core of the synchronous clients (decision 0031).

Settings, results and errors are those of `barnabas.clients.producer` and `barnabas.clients.consumer`.
"""

from barnabas.clients.aio.consumer import Consumer
from barnabas.clients.aio.producer import Producer
from barnabas.clients.aio.rebalance_listener import AnyRebalanceListener, RebalanceListener

__all__ = ["AnyRebalanceListener", "Consumer", "Producer", "RebalanceListener"]
