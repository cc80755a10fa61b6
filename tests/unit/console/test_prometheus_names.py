"""What Prometheus calls our metrics, the page that is made of them, and what is said without the extra."""

from __future__ import annotations

import sys

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from barnabas.broker.foundations import BrokerState
from barnabas.config.config_error import ConfigError
from barnabas.console.console_server import ConsoleServer
from barnabas.console.metrics_collector import MetricsCollector
from barnabas.metrics.histogram import DurationHistogram
from barnabas.metrics.meter import Meter
from barnabas.metrics.metrics_registry import MetricsRegistry


def registry() -> MetricsRegistry:
    metrics = MetricsRegistry()
    metrics.register("kafka.log", "LogCleanerManager", "max-dirty-percent", "", lambda: 12.5)
    metrics.register("kafka.log", "LogManager", "LogDirectoryOffline", "", lambda: 1, {"logDirectory": 'C:\\"a"\n'})
    metrics.register("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", "", Meter()).count = 10
    metrics.register("kafka.server", "BrokerTopicMetrics", "MessagesInPerSec", "", Meter(), {"topic": "t"}).count = 7
    metrics.register("kafka.server", "Odd", "CountOfThings", "", Meter()).count = 3
    times = DurationHistogram()
    metrics.register("kafka.network", "RequestMetrics", "TotalTimeMs", "", times, {"request": "Fetch"})
    for milliseconds in range(1, 101):
        times.update(milliseconds * 1_000_000)
    metrics.register("kafka.network", "Processor", "IdlePercent", "", lambda: 0.5, {"networkProcessor": "0"})
    metrics.register("kafka.server", "KafkaServer", "ClusterId", "", lambda: 1, {"value": "abc"})
    metrics.register_attribute("kafka.server", "Produce", "byte-rate", "", lambda: float("nan"), {"client-id": "c"})
    metrics.register_attribute("kafka.server", "socket-server-metrics", "select-total", "", lambda: 9)
    return metrics


def test_every_sort_of_metric_reads_back_from_the_page() -> None:
    pages = CollectorRegistry()
    pages.register(MetricsCollector(registry()))
    families = list(text_string_to_metric_families(generate_latest(pages).decode()))
    types = {family.name: family.type for family in families}
    values = {
        (sample.name, *sorted(sample.labels.items())): sample.value for family in families for sample in family.samples
    }
    assert types["kafka_log_logcleanermanager_max_dirty_percent"] == "gauge"
    assert types["kafka_server_brokertopicmetrics_messagesin"] == "counter"
    assert types["kafka_network_requestmetrics_totaltimems"] == "summary"
    assert types["kafka_server_socket_server_metrics_select"] == "counter"
    assert values["kafka_server_brokertopicmetrics_messagesin_total",] == 10
    assert values["kafka_server_brokertopicmetrics_messagesin_total", ("topic", "t")] == 7
    assert values["kafka_server_odd_countofthings_total",] == 3
    assert values["kafka_log_logmanager_logdirectoryoffline", ("logDirectory", 'C:\\"a"\n')] == 1
    assert str(values["kafka_server_quota_byte_rate", ("clientId", "c"), ("resource", "Produce")]) == "nan"
    assert values["kafka_server_kafkaserver_clusterid", ("value", "abc")] == 1
    for name in ("idlepercent", "idle_percent"):
        assert values[f"kafka_network_processor_{name}", ("networkProcessor", "0")] == 0.5
    total, request = "kafka_network_requestmetrics_totaltimems", ("request", "Fetch")
    quantiles = [sample[1][1] for sample in values if sample[0] == total]
    assert quantiles == ["0.50", "0.75", "0.95", "0.98", "0.99", "0.999"]
    assert values[total, ("quantile", "0.99"), request] == pytest.approx(99, rel=1 / 16)
    assert values[f"{total}_count", request] == 100
    assert values[f"{total}_sum", request] == pytest.approx(5050, rel=1 / 16)
    assert values[f"{total}_max", request] >= 100


def test_without_the_extra_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'barnabas\[metrics\]'"):
        ConsoleServer("127.0.0.1", 0, MetricsRegistry(), lambda: BrokerState.RUNNING)
