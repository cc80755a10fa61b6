"""`barnabas transactions` on a broker with an open transaction."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from barnabas.cli.main import barnabas
from barnabas.clients.admin import Admin, NewTopic
from barnabas.clients.producer import Producer, ProducerFenced
from barnabas.testing import broker
from tests.support.server_fixtures import AGAINST_KAFKA

pytestmark = pytest.mark.skipif(AGAINST_KAFKA, reason="the broker of the test kit is ours")


@pytest.fixture
def bootstrap() -> Iterator[str]:
    with broker() as process:
        with Admin(process.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("t", 1, 1)])
        yield process.bootstrap_servers


def run(bootstrap: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        barnabas, ["transactions", *arguments], env={"BARNABAS_BOOTSTRAP_SERVER": bootstrap}, catch_exceptions=False
    )


def rows(result: Result) -> list[list[str]]:
    """The cells of a table in a pipe, without the columns' names."""
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    return [[cell.rpartition(" ")[2] for cell in line.split("\t")[1:]] for line in lines]


def test_an_open_transaction_is_shown_and_ended(bootstrap: str) -> None:
    with Producer(bootstrap, transactional_id="billing") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1").result()
        ((name, _, producer_id, state),) = rows(run(bootstrap, "list", "--state", "Ongoing"))
        assert (name, state) == ("billing", "Ongoing")
        assert rows(run(bootstrap, "list", "--state", "CompleteCommit")) == []
        ((_, described_id, _, state, timeout, started, partitions),) = rows(run(bootstrap, "describe", "billing"))
        assert (described_id, state, timeout, partitions) == (producer_id, "Ongoing", "60000", "t-0")
        assert started.endswith("+00:00")
        ((seen_id, *_, begins),) = rows(run(bootstrap, "describe-producers", "t", "0"))
        assert (seen_id, begins) == (producer_id, "0")
        missing = run(bootstrap, "abort", "t", "0", "--start-offset", "7")
        assert missing.exit_code != 0
        assert "no transaction of t-0 begins at offset 7" in missing.output
        aborted = run(bootstrap, "abort", "t", "0", "--start-offset", "0")
        assert aborted.stdout == f"t-0\tproducer {producer_id}\taborted from 0\n"
        assert rows(run(bootstrap, "describe-producers", "t", "0"))[0][-1] == "none"
        ended = run(bootstrap, "force-terminate", "billing")
        assert ended.stdout.startswith(f"billing\tproducer {producer_id}\tepoch ")
        with pytest.raises(ProducerFenced):
            producer.commit_transaction()


def test_an_unknown_id_is_an_error_of_one_line(bootstrap: str) -> None:
    unknown = run(bootstrap, "describe", "nothing")
    assert unknown.exit_code == 1
    assert "TRANSACTIONAL_ID_NOT_FOUND" in unknown.output
    assert len(unknown.output.splitlines()) == 1
