"""Records what Spark's Kafka connector answers (needs Java and Maven): see `recorded_answers`."""

from __future__ import annotations

import tempfile

from barnabas_spark.session import QUICK_START, local_session
from tests.spark.connector.comparison import SourceUnderTest, compared_rows
from tests.spark.connector.connector_session import connector_settings
from tests.spark.connector.recorded_answers import RECORDED_QUERIES, RecordedAnswer, recorded_form, write_answers
from tests.spark.connector.topics import EVERY_TOPIC, compared_topics


def main() -> None:
    """Ask the connector all queries that are recorded. Raises AssertionError if one fails."""
    answers: dict[str, RecordedAnswer] = {}
    with (
        compared_topics(EVERY_TOPIC) as topics,
        tempfile.TemporaryDirectory() as scratch,
        local_session("record", scratch, java_options=QUICK_START, settings=connector_settings()) as spark,
    ):
        source = SourceUnderTest(spark, "kafka", topics)
        for query in RECORDED_QUERIES:
            answer = source.answer(query)
            assert answer.error is None, (query, answer.error)
            answers[query.name] = recorded_form(compared_rows(answer, topics))
    write_answers(answers)


if __name__ == "__main__":
    main()
