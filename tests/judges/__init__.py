"""Slow twins of what is fast, and readers of transcripts: what only tests use."""
