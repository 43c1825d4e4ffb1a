"""A client of a network: publish, subscribe, put a load on it."""
