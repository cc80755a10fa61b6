"""Values of records that have a schema: where it is, the frame around each value, and what decodes and encodes it."""
