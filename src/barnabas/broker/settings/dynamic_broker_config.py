"""The broker's settings while it runs: its file's with the store's changes on top, and the parts that follow them.

Made by BrokerServer; `load` runs once the store is open, before the parts that follow settings exist. `validate` is
called by ConfigAdmin on request handlers' threads, `entity_changed` by ConfigChangeListener on a scheduler thread, one
notice at a time; `current` and `settings` are read by any thread. `_lock` guards the list of parts and has one change
applied at a time; a snapshot is replaced by one assignment.

For example, `num.io.threads` is 3 in the file and a client sets it to 5 for this broker. `validate` lays 5 over the
file, parses the result, checks that 5 is at most twice 3, and asks the parts that follow the setting. The client is
answered as soon as the store has the change. Later the store's notice arrives: `entity_changed` does the same once
more, replaces the snapshot, and only then has the handler pool start two threads. Between the two another change may
be accepted, so a step that was within the limit may be too large when it is applied; it is applied all the same.

Kafka: kafka.server.DynamicBrokerConfig, kafka.server.BrokerReconfigurable, org.apache.kafka.common.Reconfigurable.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from barnabas.config.broker_config_keys import find_key
from barnabas.config.config_error import ConfigError, RequirementFailed, StepTooLarge
from barnabas.config.dynamic_settings import (
    BrokerSettings,
    base_name,
    check_dynamic_settings,
    check_thread_counts,
    is_password,
    usable_settings,
)
from barnabas.config.kafka_config import KafkaConfig
from barnabas.config.kept_settings import by_reason, why_nothing_acts
from barnabas.config.listeners import inter_broker_listener_name_of
from barnabas.config.setting import Settings, setting
from barnabas.metadata.stored_configs import ALL_BROKERS
from barnabas.network.network_config import NetworkConfig
from barnabas.runtime.lazy import Lazy

if TYPE_CHECKING:
    from barnabas.security.password_encoder import StoredPasswords

logger = logging.getLogger(__name__)


class Reconfigurable(Protocol):
    """A part of the broker that follows some settings: SocketServer, the handler pool, LogManager and others.

    A change that touches none of them does not call the part. `validate` is called on the request handler's thread
    that changes settings, and again on the scheduler thread that applies the change by `reconfigure`.
    """

    @property
    def settings(self) -> frozenset[str]:
        """The names that the part follows, without the prefix of a listener."""

    def validate(self, current: KafkaConfig, proposed: KafkaConfig) -> None:
        """Check that `proposed` can replace `current`, without changing anything and without blocking.

        Raises ConfigError: the part cannot have the proposed settings.
        """

    def reconfigure(self, previous: KafkaConfig, current: KafkaConfig) -> None:
        """Apply the settings of `current` that differ from those of `previous`."""


class FollowsFiles(Protocol):
    """A part whose settings name files, which may have changed although no setting has: key stores.

    As in Kafka a request that alters the settings of a broker, be it to the values they have, reads such files again.
    """

    def check_files(self, current: KafkaConfig) -> None:
        """Check files that have changed. Raises ConfigError: the part cannot use one of them."""

    def reload_files(self, current: KafkaConfig) -> None:
        """Take over files that have changed; one that cannot be used is logged."""


class PasswordSecrets(Settings):
    """Which secrets of stored passwords are given: the present one, and one that is to be replaced."""

    has_present: bool = setting("password.encoder.secret", bool)
    has_old: bool = setting("password.encoder.old.secret", bool)


class DynamicBrokerConfig:
    """The settings in force, and the parts that follow them. static: the settings of the file."""

    def __init__(self, static: KafkaConfig) -> None:
        """Raises ConfigError: the encoder of passwords cannot be made."""
        self._settings = BrokerSettings.of(static)

        def new_passwords() -> StoredPasswords:
            from barnabas.security.password_encoder import StoredPasswords

            return StoredPasswords(static)

        self._passwords = Lazy(new_passwords)
        secrets = PasswordSecrets.from_kafka_config(static)
        if secrets.has_present or secrets.has_old:
            # Now, since their settings may stop the start. Other brokers are rarely asked to store a password.
            self._passwords()
        self._broker_id = ""
        self._lock = threading.RLock()
        self._parts: tuple[Reconfigurable, ...] = ()
        self._add_parts: Callable[[], None] | None = None
        self._follows_files: FollowsFiles | None = None
        self._check_start: Callable[[KafkaConfig], None] | None = None

    @property
    def current(self) -> KafkaConfig:
        """The settings in force now."""
        return self._settings.current

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force now, and the source of each."""
        return self._settings

    @property
    def passwords(self) -> StoredPasswords:
        """The encoder of the passwords among the broker's settings."""
        return self._passwords()

    def load(
        self,
        overrides: Callable[[str], Mapping[str, str]],
        broker_id: int,
        check_start: Callable[[KafkaConfig], None] | None = None,
    ) -> None:
        """Take over the changes in the store. overrides: returns those of a broker by name, or of ALL_BROKERS.

        check_start: checks what a start with such settings could not do. Raises ConfigError.
        Settings that cannot be used are logged and left out, so that a broker whose file has changed still starts.
        """
        self._broker_id = str(broker_id)
        self._check_start = check_start
        for entity in (ALL_BROKERS, self._broker_id):
            self.entity_changed(entity, overrides(entity))

    def follow(self, add_parts: Callable[[], None]) -> None:
        """Have `add_parts` called, which adds the parts, before the next change is checked or applied.

        It is called now if the store has changed settings: the parts may have been made of those of the file.
        """
        with self._lock:
            self._add_parts = add_parts
            if self._settings.of_broker or self._settings.of_cluster:
                self._complete_parts()

    def _complete_parts(self) -> None:
        """Add the parts that follow the settings: imported for the first change, since few brokers see one."""
        with self._lock:
            if self._add_parts is not None:
                self._add_parts()
                self._add_parts = None

    def add_reconfigurable(self, part: Reconfigurable, made_from: KafkaConfig | None = None) -> None:
        """Have `part` follow its settings from now on. made_from: the settings it has; by default those in force."""
        with self._lock:
            # Under the lock: a change either comes before, and is caught up with below, or comes after and reaches the
            # part.
            self._parts = (*self._parts, part)
            current = self.current
            if made_from is not None and part.settings.intersection(_changed(made_from, current)):
                part.reconfigure(made_from, current)

    def follow_files(self, part: FollowsFiles) -> None:
        """Have `part` read its files again whenever a request alters the settings of this broker."""
        with self._lock:
            self._follows_files = part

    def stop(self) -> None:
        """Detach the parts from their settings before they are stopped; waits for a change in progress."""
        with self._lock:
            self._parts = ()
            self._add_parts = None
            self._follows_files = None

    def validate(self, changed: Mapping[str, str], *, per_broker: bool) -> None:
        """Check a change before it is stored. per_broker: the settings are for this broker, and not for all.

        Raises ConfigError, in Kafka's words: a setting may not be changed so, or a part cannot follow it.
        """
        check_dynamic_settings(changed, per_broker=per_broker)
        if self._add_parts is not None:
            self._complete_parts()
        # One snapshot for all checks, since another change may be applied meanwhile.
        settings = self._settings
        try:
            proposed = settings.with_broker(changed) if per_broker else settings.with_cluster(changed)
        except RequirementFailed as error:
            raise ConfigError(f"requirement failed: {error.message}", error.name) from error
        self._validate_parts(settings.current, proposed.current)
        if per_broker and (files := self._follows_files) is not None:
            files.check_files(proposed.current)

    def entity_changed(self, entity: str, stored: Mapping[str, str]) -> None:
        """Take over the settings that the store now has for this broker, or for all. Other brokers' are ignored."""
        if entity not in (ALL_BROKERS, self._broker_id):
            return
        per_broker = entity != ALL_BROKERS
        if any(map(is_password, stored)):
            stored = self.passwords.decoded(stored)
        usable, complaints = usable_settings(stored, per_broker=per_broker)
        for complaint in complaints:
            logger.error("Ignoring a setting of the metadata store: %s", complaint)
        with self._lock:
            self._complete_parts()
            previous = self._settings
            try:
                if not self._parts:
                    usable = self._startable(usable, per_broker=per_broker)
                settings = previous.with_broker(usable) if per_broker else previous.with_cluster(usable)
                parts = self._validate_parts(previous.current, settings.current, accepted=True)
            except ConfigError as error:
                whose = f"Per-broker configs of {entity}" if per_broker else "Cluster default configs"
                logger.error("%s could not be applied: %s: %s", whose, sorted(stored), error.message)  # noqa: TRY400
                return
            # In force before the parts are called: a part that reads `current` must find the new settings there.
            self._settings = settings
            _warn_of_kept(previous.of_broker if per_broker else previous.of_cluster, usable)
            self._reconfigure(parts, previous.current, settings.current)
            if per_broker and self._follows_files is not None:
                self._follows_files.reload_files(settings.current)

    def _startable(self, usable: dict[str, str], *, per_broker: bool) -> dict[str, str]:
        """Return the settings with which a start succeeds, as far as the store decides it; log the others.

        There are no parts yet to check them. They passed the checks of a change, or were written by another program;
        since then a file may have gone, or a host name.
        """
        left = dict(usable)
        while left and (problem := self._problem_of(left, per_broker=per_broker)) is not None:
            if self._problem_of({}, per_broker=per_broker) is not None:
                # They are not to blame: the file is wrong by itself, and the start says so; or it lacks this broker's
                # own settings, which come behind the defaults.
                break
            without = {name: {key: value for key, value in left.items() if key != name} for name in sorted(left)}
            # One that is wrong by itself; else, of several that contradict each other, the last.
            culprit = next(
                (name for name, rest in without.items() if self._problem_of(rest, per_broker=per_broker) is None),
                max(left),
            )
            logger.error("Ignoring a setting of the metadata store: %s: %s", culprit, problem.message)
            left = without[culprit]
        return left

    def _problem_of(self, changes: Mapping[str, str], *, per_broker: bool) -> ConfigError | None:
        """Return why a broker with these changes in the store could not start; None if it could."""
        try:
            previous = self._settings
            config = (previous.with_broker(changes) if per_broker else previous.with_cluster(changes)).current
            NetworkConfig.from_kafka_config(config, inter_broker_listener=inter_broker_listener_name_of(config))
            if self._check_start is not None:
                self._check_start(config)
        except ConfigError as error:
            return error
        return None

    def _validate_parts(
        self, current: KafkaConfig, proposed: KafkaConfig, *, accepted: bool = False
    ) -> list[Reconfigurable]:
        """Return the parts that the change concerns, after each has accepted it.

        accepted: the change passed the checks earlier, with the settings of that time. Its step may be larger now, and
        is allowed; Kafka drops the change. Raises ConfigError: a part cannot follow the change.
        """
        names = _changed(current, proposed)
        parts = [part for part in self._parts if part.settings.intersection(names)]
        for validate in (check_thread_counts, *(part.validate for part in parts)):
            try:
                validate(current, proposed)
            except ConfigError as error:
                if accepted and isinstance(error, StepTooLarge):
                    continue
                # Kafka swaps name and value in this message, and tools and users know the message that way.
                reason = f"org.apache.kafka.common.config.ConfigException: {error.message}"
                raise ConfigError(f"Invalid value {reason} for configuration Invalid dynamic configuration") from error
        return parts

    @staticmethod
    def _reconfigure(parts: Collection[Reconfigurable], previous: KafkaConfig, current: KafkaConfig) -> None:
        changes = {name: current.originals.get(name) for name in _changed_names(previous, current)}
        if changes:
            shown = ", ".join(f"{name}={_loggable(name, value)}" for name, value in sorted(changes.items()))
            logger.info("Settings changed: %s", shown)
        for part in parts:
            try:
                part.reconfigure(previous, current)
            except Exception:
                # The settings are in force, so the other parts must still take them over.
                logger.exception("%s failed to apply its changed settings", type(part).__name__)


def _warn_of_kept(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Log the changes that have no effect: Kafka's tools get success for them, as from Kafka."""
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    kept = {name: why for name in changed if (why := why_nothing_acts(name)) is not None}
    if kept:
        logger.warning("These settings are kept, and nothing acts on their change: %s", by_reason(kept))


def _changed_names(previous: KafkaConfig, current: KafkaConfig) -> set[str]:
    before, after = previous.originals, current.originals
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def _changed(previous: KafkaConfig, current: KafkaConfig) -> set[str]:
    """Return the names of settings that differ, without listeners' prefixes."""
    return {base_name(name) for name in _changed_names(previous, current)}


def _loggable(name: str, value: str | None) -> str:
    if value is None:
        return "(unset)"
    key = find_key(name)
    return "[hidden]" if key is None or key.is_sensitive else value
