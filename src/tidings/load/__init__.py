"""A load for any MQTT broker, and what became of every message."""
