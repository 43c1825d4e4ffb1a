"""Match at scale: events and subscriptions become notifications, as the brokers' index finds them.

Read in this order: `subscriptions` (as an index in arrays), `rows` (a plainer one, where filters are
simple), `files` (arrays in a file that workers map together), `encoding` (Arrow columns as the index takes
them), `matcher` (a batch of events to what it matches), `cells` and `strategies` (both ways through Spark:
the index everywhere, or subscriptions and events brought together by dz-expressions), `cost_model` (which
of the two, by size and skew), `writing` (answers as files, by the workers that found them), `job` (a
workload from its folder).
"""
