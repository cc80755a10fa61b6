"""The consumer's fetches: requests and sessions, decoded records, positions looked up by time."""
