"""Access control lists: their codes, patterns and entries, and the authorizer that decides by them. No input/output."""
