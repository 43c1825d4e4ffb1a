"""Thousands of brokers in one process, in virtual time, under one seed.

Read it from the bottom up: `clock` (what happens next), `network` (what a connection does to frames),
`carried` (what is counted of them), `disks` (what a crash leaves), `node` and `world` (the driver of the very
brokers that run live), `faults` (what goes wrong, and when), `measures` (what it cost).

Each kind of run has a room, with files that rhyme: `trace` (what was asked, promised, done and got),
`promises` (what judges the trace), `workload` (who asks and publishes), `run` (all of it from one seed).
`brokers` has simulated clients, `mqtt` clients that speak bytes, `gathering` noisy reports, `peers` a world
without brokers, `plans` a workload before and after a plan. `gathering.centres` searches a tree for its
seat, without brokers around the search.
"""
