"""`barnabas topics` and `barnabas reassign`."""
