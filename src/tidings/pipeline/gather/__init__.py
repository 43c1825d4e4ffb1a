"""Gather at scale: reports in tables or streams become events, exactly as the broker's gatherer makes them.

Read in this order: `layout` (a declaration as columns), `kernel` (the machine in numba, over the reports of
one key after another), `columnar` (that kernel over Arrow tables), `fallback` (the `gathering` machine, for
what the kernel does not say), `continuation` (which changes of a declaration a stream survives), `engines`
(which of the two machines a topic takes, and what a stream keeps), `counting` (the summary). On Spark:
`frames` (DataFrames as those columns), `batch`, `streaming`, and `job` at the edge.

Keys do not know each other, so that any division of keys among tasks gives the same. The limits of a seat's
memory (`open_max`, `event_bytes_max`) are not applied: there is no seat here.
"""
