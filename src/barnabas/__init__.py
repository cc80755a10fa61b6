"""Barnabas: an event streaming broker that speaks Kafka's wire protocol and keeps Kafka's files.

Imported by everything; holds the version and nothing else, so that `import barnabas` stays cheap.
"""

__version__ = "0.1.0"
