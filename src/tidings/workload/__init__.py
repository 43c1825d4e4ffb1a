"""Workloads of a wide-area network: who is interested in what and where, what happens, and who reports it.

Here is what a workload is (hierarchies, counts, positions, transformations, sizes), in plain Python and
numpy. The tables are made by Spark, in `pipeline.workload`.
"""
