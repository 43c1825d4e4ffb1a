"""Planners as pure functions: where stores go, which clients move. Plain values in, plans out; nothing is
touched, no file is read, no clock is asked, and what is drawn is drawn by a seed.
"""
