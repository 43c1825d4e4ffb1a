"""A demonstration: what a newcomer runs, sees and understands. `steps` has what is done, in which order."""
