"""Where a broker listens, as text: `host:port`, with brackets around an IPv6 address."""

from __future__ import annotations

from tidings.errors import InputError

PORT_MAX = 65_535


def read(text: str) -> tuple[str, int]:
    """Host and port.

    >>> read("localhost:7883"), read("[::1]:7883")
    (('localhost', 7883), ('::1', 7883))
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise InputError(f"{text!r} is no address: write an IPv6 address in brackets, as in [::1]:7883")
    if not colon or not host or not (port.isascii() and port.isdigit() and 0 < int(port) <= PORT_MAX):
        raise InputError(f"{text!r} is no address: it is a host and a port, as in 127.0.0.1:7883")
    return host, int(port)


def write(host: str, port: int) -> str:
    """The text that `read` reads.

    >>> write("::1", 7883)
    '[::1]:7883'
    """
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def host_of(address: str) -> str:
    """The host of an address, without brackets; a text without a port is a host.

    >>> host_of("[::1]:7883"), host_of("127.0.0.1:7883"), host_of("127.0.0.1")
    ('::1', '127.0.0.1', '127.0.0.1')
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or (":" in host and not host.endswith("]")):
        host = address
    return host.removeprefix("[").removesuffix("]")
