"""Certificates, passwords, access control lists and tokens that change under load.

The rules of Kafka stand in docs/security.md ("Changes while clients run"). `rules` checks them one by one on
connections of its own, on ours and on Apache Kafka 3.9. `load` has clients of three libraries, of which some go on
undisturbed, and some have their own security changed (`changing`). `campaign` puts all together, on the brokers that
`brokers` starts.
"""
