"""The test kit: a real broker for other people's tests, as a context manager and as a pytest fixture."""
