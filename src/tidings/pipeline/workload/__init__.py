"""The tables of a workload, made by Spark from hashes of a seed: one stage for each.

The same spec gives the same rows on any number of cores. The twin of each stage, in `twin`, makes the same
rows without Spark. What a workload is, is said in `tidings.workload`.
"""
