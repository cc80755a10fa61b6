"""Options of `format("barnabas")`: their table, their values, and what a source and a sink make of them."""
