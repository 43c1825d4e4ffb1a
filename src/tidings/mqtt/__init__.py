"""MQTT 5.0 and 3.1.1, the server's side, without I/O: packets, codec, sessions.

MQTT on one side, the events and effects of `overlay` on the other. `front` puts them together.
"""
