"""Events and reports of files, without a network."""
