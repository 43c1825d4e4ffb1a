"""A generator of workloads for wide-area publish/subscribe: what its paper says, measured on ours.

Read `setting` (what may be set, and the data), `statistics` (figures 1 to 4), `space` (diffusion,
generalisation, intervals), `subscribing` (samples and event rates), `network` (positions, brokers, Spark),
`figures` (what is run for each), `plots`, and `experiment`, which is what `tidings reproduce` calls.
"""
