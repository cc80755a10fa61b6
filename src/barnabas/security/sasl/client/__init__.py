"""The client's side of SASL: logins to brokers, by PLAIN, SCRAM and OAUTHBEARER.

Used by `rpc` for the connections of clients. Kafka: SaslClientAuthenticator and the SaslClients of the mechanisms.
"""
