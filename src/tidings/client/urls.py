"""Where brokers are, as programs write it: `mqtt://host:1883`, or several of them.

A name and a password in a URL are taken, but they end up in shell histories and logs; better are arguments
or the variables TIDINGS_USER and TIDINGS_PASSWORD. Nothing here opens a connection.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from tidings.errors import InputError

PORTS = {"mqtt": 1883, "mqtts": 8883, "ws": 8083, "wss": 8084}
"""What a scheme means where no port is given. For WebSocket these are the ports that MQTT brokers use."""

WEBSOCKET_PATH = "/mqtt"

USER = "TIDINGS_USER"
PASSWORD = "TIDINGS_PASSWORD"  # noqa: S105
URL = "TIDINGS_URL"
"""The variables that say who one is, and where the network is."""

DEFAULT_URL = "mqtt://localhost:1883"


@dataclass(frozen=True, slots=True)
class Address:
    """One place where a broker may be."""

    scheme: str
    host: str
    port: int

    path: str = ""
    """Of a WebSocket; empty for others."""

    user: str | None = None
    password: str | None = None

    @property
    def secure(self) -> bool:
        """Whether TLS is spoken."""
        return self.scheme in ("mqtts", "wss")

    @property
    def websocket(self) -> bool:
        """Whether MQTT goes through a WebSocket."""
        return self.scheme in ("ws", "wss")

    def __str__(self) -> str:
        """The URL without name and password: it is for messages."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}{self.path}"


def read_all(
    urls: str | Sequence[str],
    user: str | None = None,
    password: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> tuple[Address, ...]:
    """The addresses in a URL, a list of them, or a text with commas between them.

    What an argument says about name and password wins over the URL, and that over the variables.

    >>> [str(one) for one in read_all("mqtt://a.example, mqtt://[::1]:1884")]
    ['mqtt://a.example:1883', 'mqtt://[::1]:1884']
    """
    texts = urls.split(",") if isinstance(urls, str) else [str(one) for one in urls]
    variables = {} if environment is None else environment
    addresses = tuple(_read(text.strip(), user, password, variables) for text in texts if text.strip())
    if not addresses:
        raise InputError(f"no URL is given; write where the network is, such as {DEFAULT_URL}")
    if len({one.scheme for one in addresses}) > 1:
        raise InputError(
            f"{', '.join(str(one) for one in addresses)}: the URLs of one connection must have one scheme; "
            "connect twice if you need both"
        )
    return addresses


def _read(text: str, user: str | None, password: str | None, environment: Mapping[str, str]) -> Address:
    # `localhost:1883` looks like a URL with the scheme localhost; it is the commonest slip.
    if "://" not in text:
        raise _wrong(text, f"it has no scheme; write mqtt://{text}")
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise _wrong(text, str(error)) from None
    if parts.scheme not in PORTS:
        raise _wrong(_shown(parts), f"{parts.scheme!r} is none of the schemes {', '.join(PORTS)}")
    if not parts.hostname:
        raise _wrong(_shown(parts), "it names no host")
    if port == 0:
        raise _wrong(_shown(parts), "the port must be from 1 to 65535")
    websocket = parts.scheme in ("ws", "wss")
    if parts.query or parts.fragment or (parts.path not in ("", "/") and not websocket):
        raise _wrong(
            _shown(parts), "behind host and port nothing is expected, but for the path of a WebSocket"
        )
    in_url = None if parts.username is None else unquote(parts.username)
    in_url_password = None if parts.password is None else unquote(parts.password)
    return Address(
        scheme=parts.scheme,
        host=parts.hostname,
        port=port or PORTS[parts.scheme],
        path=(parts.path if parts.path not in ("", "/") else WEBSOCKET_PATH) if websocket else "",
        user=user if user is not None else in_url if in_url is not None else environment.get(USER),
        password=password
        if password is not None
        else in_url_password
        if in_url_password is not None
        else environment.get(PASSWORD),
    )


def _shown(parts: SplitResult) -> str:
    """The URL without name and password."""
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _wrong(text: str, why: str) -> InputError:
    return InputError(f"{text[:200]!r} is no URL of a broker: {why}; such as {DEFAULT_URL}")
