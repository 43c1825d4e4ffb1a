"""A broker on this machine: sockets, timers and files for it, and nothing else.

`node` drives one `overlay.broker.Broker` with asyncio; `connections`, `sessions`, `store` and `tls` are what
it needs for that. What a broker decides is not decided here.
"""
