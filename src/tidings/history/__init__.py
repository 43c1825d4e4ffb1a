"""The log of past events on disk: one per topic and broker, in numbered entries that never change.

`entries` says what is kept, `segments` how it is written, `log` is one log, `logs` all of a broker's folder.
`files` is the one place below the drivers that touches a disk. There is no clock here, and no socket.
"""
