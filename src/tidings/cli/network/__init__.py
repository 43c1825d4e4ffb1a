"""Brokers: started, watched, stopped; their users and sessions."""
