"""Which clients move: what the paper on community clustering says, measured on our planners.

Read `setting` (what may be set), `overlays` (clusters of brokers around a backbone), `relations` (who talks
to whom), `measures` (one run), `plots`, and `experiment`, which is what `tidings reproduce` calls.
"""
