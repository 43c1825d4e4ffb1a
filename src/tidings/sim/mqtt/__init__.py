"""Runs of brokers with MQTT clients: real bytes, a trace of each client, and the promises that judge it."""
