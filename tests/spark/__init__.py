"""Tests of barnabas_spark: its own arithmetic without Spark, then whole queries against a real broker."""
