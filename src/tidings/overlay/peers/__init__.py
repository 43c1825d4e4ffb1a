"""Peers: subscribers that serve each other, each within the delay and the waste that it accepts.

A peer is a machine without sockets or clocks, as a broker is. Read `messages` (what peers say), `events`
(what a driver tells one, and what it wants done), `settings`; then its parts, one idea each: `cells`,
`views`, `rates`, `upward`, `downward`, `outlooks`; `peer` puts them together. docs/design/0032-peers.md has
the theory and where we differ from the paper.
"""
