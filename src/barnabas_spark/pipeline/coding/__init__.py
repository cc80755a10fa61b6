"""Avro and Protobuf values of records: their schemas, from files or a registry, and the frame around each value."""
