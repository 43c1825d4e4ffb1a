"""How commands reach a network: the options that say where it is and who one is.

A password is never an option: it would be in the list of processes. TIDINGS_PASSWORD says it, or the URL in
TIDINGS_URL.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from tidings.errors import InputError, alone

if TYPE_CHECKING:
    from tidings.client.network import Network

Result = TypeVar("Result")

Url = Annotated[
    str | None,
    typer.Option(
        "--url",
        metavar="URL",
        help="Where the network is: mqtt://, mqtts://, ws:// or wss://; several with commas. "
        "By default TIDINGS_URL, else the network that runs here, else mqtt://localhost:1883.",
    ),
]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="NAME", help="Who you are; the password is in TIDINGS_PASSWORD."),
]
Authority = Annotated[
    str | None,
    typer.Option(
        "--authority", metavar="FILE", help="Certificates that are trusted, for mqtts:// and wss://."
    ),
]
Certificate = Annotated[
    str | None,
    typer.Option("--certificate", metavar="FILE", help="Your own certificate, where one is wanted."),
]
Key = Annotated[str | None, typer.Option("--key", metavar="FILE", help="The key of your certificate.")]


def where(url: str | None) -> str:
    """The URL that was given, or else the one that is meant."""
    from tidings.client.urls import DEFAULT_URL, URL
    from tidings.local.network import StateFile

    if url or os.environ.get(URL):
        return url or os.environ[URL]
    state = StateFile().read()
    if state is not None:
        mqtt = [f"mqtt://{member.mqtt}" for member in state.members if member.alive]
        if mqtt:
            return ",".join(mqtt)
    return DEFAULT_URL


def network(
    url: str | None,
    user: str | None = None,
    authority: str | None = None,
    certificate: str | None = None,
    key: str | None = None,
) -> Network:
    """The network that a command means, to be entered."""
    from tidings.client.network import connect

    if (certificate is None) != (key is None):
        raise InputError("--certificate and --key belong together: one file has each")
    pair = (certificate, key) if certificate is not None and key is not None else None
    return connect(where(url), user=user, authority=authority, certificate=pair)


def run(
    work: Coroutine[Any, Any, Result], loop: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> Result | None:
    """Run to the end, or until Ctrl-C or SIGTERM, which end it in peace: None then."""

    async def interruptible() -> Result | None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work)
        asked = False

        def stop() -> None:
            nonlocal asked
            asked = True
            task.cancel()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)
        try:
            return await task
        except asyncio.CancelledError:
            if not asked:
                raise
            return None

    try:
        with asyncio.Runner(loop_factory=loop) as runner:
            return runner.run(interruptible())
    except BaseExceptionGroup as group:
        raise alone(group) from None
