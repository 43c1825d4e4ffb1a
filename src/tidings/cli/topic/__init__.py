"""What every broker knows: declared topics, and views."""
