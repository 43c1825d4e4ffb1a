"""Peers: subscribers that serve each other, each within the delay and the waste that it accepts.

A peer is a machine without sockets or clocks, as a broker is. Read `messages` (what peers say), `events`
(what a driver tells one, and what it wants done), `settings`. Then what it knows: `cells`, `views`, `rates`,
`upward` and `downward`, `outlooks`; then what it does with `core`, which all share: `seeking`, `feeding`,
`accuracy`, `carrying`, `expecting`. `peer` puts them together. docs/design/0034-peers.md has the theory and
where we differ from the paper.
"""
