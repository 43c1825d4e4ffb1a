"""A broker as a service: configuration, users, access, pages, metrics and log lines. `live` starts one."""
