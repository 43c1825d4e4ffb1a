"""The broker as a machine without sockets, clocks or files: told what happened, it answers what to do.

`events` is what a driver tells a broker and what the broker wants done. The rooms `links`, `trees`,
`routing`, `publishing`, `gather` and `versions` are its parts, each with the messages that it speaks;
`broker` puts them together. docs/design/0005-network.md has the theory.
"""
