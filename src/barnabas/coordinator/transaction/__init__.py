"""The transaction coordinator: the producers with transactional ids, and the transactions that they begin and end.

`TransactionCoordinator` holds the services; `broker.stages.transaction_coordinator_builder` builds it when it is first
needed.

A transactional id is a TransactionEntry: a lock, and an immutable TransactionMetadata. A request takes three steps:
`decisions` says, from the metadata alone, what to answer or which metadata come next (by the transitions and the table
of states in `transaction_metadata`); `transaction_log` writes them under the lock; when they are stored they are put in
place, and the client is answered. An ended transaction goes on from there without its client: `marker_sender` writes a
marker into each partition, and then the end. `transaction_loading` reads everything back, and resumes what had been
decided.
"""
