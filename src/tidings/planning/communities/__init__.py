"""Which clients move: communities of clients that talk to each other are brought to neighbouring brokers."""
