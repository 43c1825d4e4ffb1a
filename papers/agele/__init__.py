"""Agele, event gatherers for noisy events: the published figures, and what lies beyond them.

Read `setting` (the numbers of the model), `network` (overlay, tree, distances), `workload` (who publishes
what when), `measures` (what is measured, and how), `machine` and `brokers` (the two engines), `figures` (what
is run for each figure), `claims` (numbers for claims.toml), `plots`, and `experiment`, which is what
`tidings reproduce` calls.
"""
