"""Trees: the shortest ways from one root to all brokers, and the brokers that are absent from them."""
