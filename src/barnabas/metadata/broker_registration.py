"""The entry of this broker among the live brokers: an ephemeral znode, whose creation gives the broker epoch.

Made by `broker`, which registers before the controller stands for election; the controller registers the broker again
after its session expired (thread `controller-event`). `_lock` guards the registration and the epoch.

Kafka: KafkaServer.createBrokerInfo, KafkaZkClient.registerBroker.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from barnabas.config.config_error import ConfigError
from barnabas.protocol.uuid import random_uuid, uuid_to_string
from barnabas.zk.broker_zk_data import BrokerInfo
from barnabas.zk.errors import NodeExistsError
from barnabas.zk.kafka_zk_client import KafkaZkClient

NOT_REGISTERED = -1


class BrokerRegistration:
    """The registration of one broker.

    info: the broker's id, its advertised endpoints with the ports that were bound, its rack, as they are now. Called by
    `register` and `update`, not before.
    """

    def __init__(self, zk_client: KafkaZkClient, info: Callable[[], BrokerInfo]) -> None:
        self._zk = zk_client
        self._lock = threading.Lock()
        self._info = info
        self._epoch = NOT_REGISTERED

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
            try:
                self._epoch = self._zk.register_broker(info)
            except NodeExistsError as error:
                raise ConfigError(
                    f"broker.id={info.id}: a broker with this id is registered already. Either it runs, or it was "
                    "killed and its session with ZooKeeper has not ended yet (zookeeper.session.timeout.ms)",
                    "broker.id",
                ) from error
            return self._epoch

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
