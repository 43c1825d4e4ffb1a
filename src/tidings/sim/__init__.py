"""Thousands of brokers in one process, in virtual time, under one seed.

Read it from the bottom up: `clock` (what happens next), `topologies` (who is joined to whom), `network` (what
a connection does to frames), `disks` (what a crash leaves), `ledger` (what clients asked, were promised and
got), `hosts`, `clients` and `world` (the driver of the very brokers that run live), `faults` (what goes
wrong, and when), `workload` (who subscribes and publishes), `checkers` (what was promised), `measures` (what
it cost), `runs` (all of it from one seed) and `transcripts` (small networks as texts).

MQTT clients have the same in their own words: `diary` (what they asked, were promised and got), `devices`
(a client), `lines` (their connections), `promises` (what was promised to them) and `device_runs`.

`centres` searches a tree for its seat, without brokers around the search. Peers that serve each other have a
world without brokers: `peers_workload`, `peers_ledger`, `peers_world`, `peers_checkers` and `peers_runs`.

Plans are tried here: `plan_runs` runs a workload with clients elsewhere, `plan_counts` and `plan_ways` count
what that takes and what a plan says it takes, `plan_trials` compares; `plan_requests` walks to stores.
"""
