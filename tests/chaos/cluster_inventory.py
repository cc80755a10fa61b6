"""Holds what a cluster has against the histories of a campaign's clients, after each round.

Called while every writer rests and every broker runs; consumers go on reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from barnabas.clients.admin import Admin
from barnabas.protocol.topic_partition import TopicPartition
from tests.chaos.cluster_faults import PATIENCE_SECONDS
from tests.chaos.committed_records import PartitionContent, check_transactions, content_of
from tests.chaos.group_reader import GroupReader
from tests.chaos.ledger import Ledger
from tests.chaos.replicas import check_acknowledged, check_replicas, equal_replicas
from tests.chaos.transaction_ledger import TransactionLedger


class ClusterInventory:
    """What the brokers of one campaign have. data_dirs: of each broker."""

    def __init__(self, data_dirs: Sequence[Path], bootstrap_servers: str) -> None:
        self._data_dirs = data_dirs
        self._bootstrap_servers = bootstrap_servers

    def check_acknowledged(
        self, ledgers: Sequence[Ledger], transactions: Sequence[TransactionLedger], settled_seconds: float
    ) -> None:
        """Check that what is acknowledged now comes to be on every broker, while writers write. Raises AssertionError.

        A writer whose records are lost may not come to rest: this check says why.
        """
        places = {
            f"{ledger.topic}-{partition}": dict(book.acknowledged)
            for ledger in ledgers
            for partition, book in enumerate(ledger.partitions)
        }
        for transaction_ledger in transactions:
            acknowledged = dict(transaction_ledger.acknowledged)
            for partition in range(transaction_ledger.partitions):
                prefix = b"%s/%d/" % (transaction_ledger.topic.encode(), partition)
                places[f"{transaction_ledger.topic}-{partition}"] = {
                    value: offset for value, offset in acknowledged.items() if value.startswith(prefix)
                }
        for name, expected in places.items():
            check_acknowledged(name, expected, self._replicas(name), settled_seconds)

    def take(
        self, ledgers: Sequence[Ledger], transactions: Sequence[TransactionLedger], readers: Sequence[GroupReader]
    ) -> None:
        """Check everything. Raises AssertionError: something is lost, repeated, in disorder or not the same."""
        for ledger in ledgers:
            for partition, book in enumerate(ledger.partitions):
                name = f"{ledger.topic}-{partition}"
                assert not book.failed, f"{name}: {len(book.failed)} deliveries failed"
                check_replicas(name, book, self._replicas(name))
        for transaction_ledger, reader in zip(transactions, readers, strict=True):
            contents = [
                self._content(f"{transaction_ledger.topic}-{partition}")
                for partition in range(transaction_ledger.partitions)
            ]
            group_offset = check_transactions(transaction_ledger, contents)
            self._check_transactional_offset(transaction_ledger, group_offset)
            for partition, content in enumerate(contents):
                self._check_reader(reader, partition, content)

    def _replicas(self, name: str) -> list[Path]:
        return [data_dir / name for data_dir in self._data_dirs]

    def _content(self, name: str) -> PartitionContent:
        return content_of(equal_replicas(name, self._replicas(name), lambda log: not content_of(log).open_producers))

    def _check_transactional_offset(self, ledger: TransactionLedger, expected: int) -> None:
        """The group's offset must be that of the last transaction that is committed with one."""
        found = self._committed(ledger.group, TopicPartition(ledger.topic, 0))
        assert found == expected, f"group {ledger.group} has committed {found}, its transactions {expected}"

    def _check_reader(self, reader: GroupReader, partition: int, content: PartitionContent) -> None:
        """The consumer must have read all that is committed and nothing else, and its commits must hold."""
        expected = {record.offset: record.value for record in content.committed}
        reader.wait_for(partition, expected.keys(), PATIENCE_SECONDS)
        name = f"{reader.topic}-{partition}"
        others = {
            offset: value[:40] for offset, value in reader.seen[partition].items() if expected.get(offset) != value
        }
        assert not others, f"{name}: group {reader.group} has read what is not committed: {others}"
        before = reader.committed_range(partition)
        found = self._committed(reader.group, TopicPartition(reader.topic, partition))
        after = reader.committed_range(partition)
        assert before.acknowledged <= found <= after.attempted, (
            f"{name}: group {reader.group} has committed {found}, and was told {before.acknowledged}"
        )

    def _committed(self, group: str, partition: TopicPartition) -> int:
        """Return the committed offset of a group, 0 for none. Raises ApiError, ClientTimeout."""
        with Admin(self._bootstrap_servers) as admin:
            found = admin.list_group_offsets(group, [partition], require_stable=True)
        return found[partition].offset if partition in found else 0
