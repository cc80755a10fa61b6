"""The kinds of sinks of a pipeline, each in a module of its own; `json_schema` has the table of them."""
