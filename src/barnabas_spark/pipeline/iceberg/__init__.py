"""Iceberg tables as sinks of pipelines, written through pyiceberg, which needs no jar."""
