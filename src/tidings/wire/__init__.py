"""The bytes between brokers, and between a broker and a program attached to it.

Calculations only: bytes are given and taken as values. Sockets are in `live`, meaning is in `overlay`.
"""
