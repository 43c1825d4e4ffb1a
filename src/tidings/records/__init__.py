"""What a network writes down about itself: one schema for brokers, simulator, Spark and console."""
