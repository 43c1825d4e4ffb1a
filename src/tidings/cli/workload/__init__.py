"""Workloads: generated and described."""
