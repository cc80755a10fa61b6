"""Every client library through every security protocol and SASL mechanism."""
