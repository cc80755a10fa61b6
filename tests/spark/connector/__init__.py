"""Spark's own Kafka connector beside our source and sink, on the same topics of our broker."""
