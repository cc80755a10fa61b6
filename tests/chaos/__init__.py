"""The crash campaign: a real broker, other people's producers, and `kill -9` at random moments."""
