"""A broker as a service: configuration, users, access, pages, metrics, log lines. What starts one is in `live`."""
