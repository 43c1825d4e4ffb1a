"""What is said in a network: topics and their fields, reports and events, filters over them.

Everything here is a calculation on plain values. It knows nothing of brokers, clocks, sockets or files,
except that `declarations` reads a file it is pointed at.
"""
