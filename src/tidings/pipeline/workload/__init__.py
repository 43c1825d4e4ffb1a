"""Workloads of a wide-area network: who is interested in what and where, what happens, and who reports it.

What a workload is (hierarchies, counts, positions, transformations, sizes) is said in plain Python and numpy;
the tables are made by Spark, from hashes of a seed, so that the same spec gives the same rows on any number
of cores. The twin of each stage, in `twin`, makes the same rows without Spark.
"""
