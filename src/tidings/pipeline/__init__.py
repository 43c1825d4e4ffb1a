"""Everything that looks at many messages at once, on Spark. The only folder that imports pyspark."""
