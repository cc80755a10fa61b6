"""The choice of a record's partition."""
