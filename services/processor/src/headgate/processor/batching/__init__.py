"""Kafka in batches under Faust: how the processor reaches an order of magnitude more than a plain agent.

Faust hands an agent one event at a time and acks each. Here an agent receives a `Batch` (what one fetch
brought of one partition), writes through an `Outbox`, flushes it, and finishes the batch. Group, assignor,
rebalances, table recovery and commits stay Faust's own.

`ledger` says which offset may be committed, `transport` is the driver that Faust loads by URL scheme, and
`outbox` is the producer whose flush means that everything is stored.
"""

from headgate.processor.batching.ledger import Batch, Ledger
from headgate.processor.batching.outbox import DeliveryFailed, Outbox
from headgate.processor.batching.transport import SCHEME, BatchTransport

__all__ = ["SCHEME", "Batch", "BatchTransport", "DeliveryFailed", "Ledger", "Outbox"]
