"""The broker as a machine without sockets, clocks or files: told what happened, it answers what to do.

`messages` is what brokers say to each other, `events` what a driver tells a broker and what the broker wants
done. `links`, `trees`, `tables` and `publications` are its parts, one idea each; `broker` puts them together.
docs/design/0005-network.md has the theory.
"""
