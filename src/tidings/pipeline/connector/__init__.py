"""The format `tidings` of Spark: a running network as tables and streams, read and written."""
