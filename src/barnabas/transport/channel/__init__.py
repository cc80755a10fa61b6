"""One connection: its states, its frames, its TLS and its login."""
