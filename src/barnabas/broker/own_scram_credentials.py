"""The SCRAM credential of the user as whom brokers log in to each other: the first broker of a cluster creates it.

The credentials of users are in the store, and are changed by requests to a broker. A broker whose own connections log
in by SCRAM takes no requests before its controller has logged in. So a broker that finds no credential of its own user
creates one, of the password in its settings. Called on the main thread, before the sockets are bound; no state.

Apache Kafka leaves it to the operator, with `kafka-configs --zookeeper` before the first start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from barnabas.broker.inter_broker_security import BrokerLogin
from barnabas.quota.sanitizer import sanitize
from barnabas.security.sasl.scram_credential import ScramCredential
from barnabas.security.sasl.scram_mechanism import SCRAM_MECHANISMS
from barnabas.zk.config_zk_data import ConfigEntityType
from barnabas.zk.config_znodes import ConfigZnodes

logger = logging.getLogger(__name__)


def create_missing_credentials(logins: Iterable[BrokerLogin], configs: ConfigZnodes) -> None:
    """Create the credentials that the logins by SCRAM need and the store lacks. One that is there stays as it is."""
    for mechanism, user in logins:
        scram = SCRAM_MECHANISMS.get(mechanism)
        if scram is None or user.is_token:
            continue
        settings = configs.entity(ConfigEntityType.USER, sanitize(user.name))
        if mechanism in settings:
            continue
        credential = ScramCredential.of_password(scram, user.password.reveal())
        configs.change(ConfigEntityType.USER, sanitize(user.name), {**settings, mechanism: credential.to_text()})
        logger.info("Created the %s credential of user %s, as whom brokers log in to each other", mechanism, user.name)
