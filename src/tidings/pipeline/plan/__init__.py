"""Plans on Spark: what a network wrote down, or a workload, becomes what planners take; topics are its tasks.

Read in this order: `pairs`, `requests`, `homes` and `links` (tables to small tables, each a sum), `sources`
(where tables come from), `inputs` (small tables as values for planners, through Arrow, with their limits),
`votes` (the first step of the placement of stores, topics as tasks).

Planners themselves know nothing of Spark, and nothing here knows how they plan.
"""
