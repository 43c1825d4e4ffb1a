"""Links: messages between two brokers are reliable and in order, although connections break at any byte."""
