"""Answers of Fetch: fetch sessions (KIP-227) and what an answer takes from them."""
