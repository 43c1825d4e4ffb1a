"""The same tables without Spark: numpy and Arrow in one process. Papers use them too."""
