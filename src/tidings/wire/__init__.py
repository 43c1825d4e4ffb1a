"""The bytes between brokers.

Calculations only: bytes are given and taken as values. Sockets are in `live`, meaning is in `overlay`.
"""
