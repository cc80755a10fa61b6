"""SASL: mechanisms, the exchange of a login, and the credentials that it is checked against."""
