"""Where stores go: what the paper on storage placement and replication says, measured on our planners.

Read `setting` (what may be set), `trees` (the networks, which the paper does not describe), `measures` (one
run), `plots`, and `experiment`, which is what `tidings reproduce` calls.
"""
