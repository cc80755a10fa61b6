"""The settings by which a Spark session has the connector's jars.

Used by the fixture `spark`, the recorder and the benchmark. A JVM takes jars only at its start, and a process has one
JVM, so the tests' session has them whenever a test of the run needs the connector.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.maven import fetch_jars

FIXTURE = "connector"
POM = Path(__file__).with_name("spark-kafka-connector.xml")


def connector_settings() -> dict[str, str]:
    """Return the session's settings. Raises CounterpartMissing without Maven, or when it cannot fetch the jars."""
    return {"spark.jars": ",".join(sorted(str(jar) for jar in fetch_jars(POM).glob("*.jar")))}
