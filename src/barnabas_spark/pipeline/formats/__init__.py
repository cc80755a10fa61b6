"""The formats of records' values, of which `table` has the list, and what decodes and encodes values by a schema."""
