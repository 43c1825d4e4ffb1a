"""Brokers as processes of one machine: what commands, the demonstration and tests share."""
