"""The entry of this broker among the live brokers: an ephemeral znode, whose creation gives the broker epoch.

Made by `broker`, which registers before the controller stands for election; the controller registers the broker again
after its session expired (thread `controller-event`). `_lock` guards the registration and the epoch.

The znode of a killed broker lasts as long as its session. A broker that is started again before that waits for the end
of the session; Apache Kafka's does not start. Kafka: KafkaServer.createBrokerInfo, KafkaZkClient.registerBroker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

from barnabas.config.config_error import ConfigError
from barnabas.config.listeners import EndPoint
from barnabas.protocol.uuid import random_uuid, uuid_to_string
from barnabas.transport.host_addresses import Probe, probe
from barnabas.zk.kafka_zk_client import KafkaZkClient
from barnabas.zk.store.errors import NodeExistsError
from barnabas.zk.znodes.broker_zk_data import BrokerInfo

logger = logging.getLogger(__name__)

NOT_REGISTERED = -1
_ASK_MS: Final = 100


def _accepts_connections(end_point: EndPoint) -> bool:
    return probe(end_point.host, end_point.port) is Probe.ACCEPTED


class BrokerRegistration:
    """The registration of one broker.

    - info: the broker's id, its advertised endpoints with the ports that were bound, its rack, as they are now. Called
      by `register` and `update`, not before;
    - patience_ms: how long to wait for the end of the session of a killed broker with this id;
    - accepts_connections: asks whether that broker still listens;
    - sleep: waits, given seconds.
    """

    def __init__(
        self,
        zk_client: KafkaZkClient,
        info: Callable[[], BrokerInfo],
        *,
        patience_ms: int = 0,
        accepts_connections: Callable[[EndPoint], bool] = _accepts_connections,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._zk = zk_client
        self._lock = threading.Lock()
        self._info = info
        self._epoch = NOT_REGISTERED
        self._patience_ms = patience_ms
        self._accepts_connections = accepts_connections
        self._sleep = sleep

    @property
    def epoch(self) -> int:
        """The broker epoch: the controller fences requests of an earlier one. -1 before `register`."""
        # Without the lock: the epoch is replaced by one assignment, and an old one is fenced by the controller.
        return self._epoch

    def register(self) -> int:
        """Register the broker, and return its new broker epoch.

        Raises ConfigError: another broker has one of the endpoints, or this id.
        """
        with self._lock:
            info = self._info()
            # A check for people's mistakes and no lock, as in Kafka: of two brokers that start at once both may pass.
            self._check_endpoints(info)
            self._epoch = self._register_when_free(info)
            return self._epoch

    def _register_when_free(self, info: BrokerInfo) -> int:
        """Register once no other session has this id, and return the epoch. Raises ConfigError: that does not come."""
        waited_ms = 0
        while True:
            try:
                return self._zk.register_broker(info)
            except NodeExistsError as error:
                if waited_ms >= self._patience_ms or self._is_running_elsewhere(info):
                    raise ConfigError(
                        f"broker.id={info.id}: a broker with this id is registered already. Either it runs, or it was "
                        "killed and its session with ZooKeeper has not ended yet (zookeeper.session.timeout.ms)",
                        "broker.id",
                    ) from error
            if waited_ms == 0:
                logger.info("Waiting for the end of the session of an earlier broker with the id %d", info.id)
            self._sleep(_ASK_MS / 1_000)
            waited_ms += _ASK_MS

    def _is_running_elsewhere(self, info: BrokerInfo) -> bool:
        """Return whether the broker that has the id answers at an address that is not this broker's own."""
        registered = self._zk.broker(info.id)
        if registered is None:
            return False
        # This broker listens at its own addresses by now: the other one does not.
        others = {each.host_and_port: each for each in registered.endpoints}
        for end_point in info.endpoints:
            others.pop(end_point.host_and_port, None)
        return any(self._accepts_connections(each) for each in others.values())

    def update(self) -> None:
        """Replace the registration by the current `info`, with other endpoints; the epoch stays."""
        with self._lock:
            self._zk.update_broker_info(self._info())

    def _check_endpoints(self, info: BrokerInfo) -> None:
        """Check that no other broker has the endpoints.

        Raises ConfigError: another broker has registered one of them.
        """
        ours = {endpoint.host_and_port for endpoint in info.endpoints}
        for broker, _ in self._zk.brokers_and_epochs().values():
            common = ours & {endpoint.host_and_port for endpoint in broker.endpoints}
            if broker.id != info.id and common:
                raise ConfigError(
                    f"Configured end points {','.join(sorted(common))} in advertised listeners are already "
                    f"registered by broker {broker.id}",
                    "advertised.listeners",
                )


def get_or_generate_cluster_id(zk_client: KafkaZkClient) -> str:
    """Return the cluster's id, a new one in a new store. Kafka: getOrGenerateClusterId."""
    return zk_client.cluster_id() or zk_client.create_or_get_cluster_id(uuid_to_string(random_uuid()))
