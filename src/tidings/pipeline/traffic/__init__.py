"""Traffic: what the records of brokers say of who talks to whom, over which links, how far and how long.

Each module named like a table makes it, hour by hour; `running` is the edge, which reads segments of records
that it has not read yet and publishes all tables together.
"""
