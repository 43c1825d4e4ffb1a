"""The page of a network: what happened on it, for people to look at. It draws values and measures none."""
