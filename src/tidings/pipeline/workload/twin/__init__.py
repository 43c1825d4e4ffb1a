"""The same tables without Spark: numpy and Arrow in one process. Each module judges the stage of its name."""
