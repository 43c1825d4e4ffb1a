"""Plans, tried: a workload before and after, and what links and brokers carried."""
