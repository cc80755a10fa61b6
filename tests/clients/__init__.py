"""Other people's clients (and ours) against a broker in its own process."""
