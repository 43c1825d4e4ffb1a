"""Brokers as a service: configurations become nodes with their pages and records, until a signal ends them.

One process may run several. They start together; each may leave by itself, and the last ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import ssl
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tidings.errors import SetupError, TidingsError
from tidings.history.logs import Syncing
from tidings.live import files, private
from tidings.live.keeping import KeepOptions
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.live.recording import Recorder
from tidings.mqtt.events import Access
from tidings.service import access, tls
from tidings.service.config import LISTENERS, SETTINGS, Configuration
from tidings.service.http import Pages
from tidings.service.logs import LOGGER, Counting
from tidings.service.tls import ClientTls, Renewable, Tls
from tidings.service.users import Users, read_users
from tidings.service.values import Address, address_text

CLIENTS_FEW = 10_000
"""If the system allows fewer than this, whoever did not ask for a number should know of it."""

LOG = logging.getLogger(LOGGER)


class Service:
    """One broker, with all that belongs to it."""

    def __init__(self, configuration: Configuration, files_max: int | None = None) -> None:
        """`files_max` is how many files it may have open; None for any number."""
        self.configuration = configuration
        self._recorder: Recorder | None = None
        options = options_of(configuration, files_max)
        self._https: Renewable | None = None
        self.node = Node(options, records=self._record if configuration.records else None)
        self.pages: Pages | None = None
        if configuration["http"] is not None:
            self.pages = Pages(
                self.node,
                configuration["http"],
                token=configuration.settings.token,
                secure=self._secure(options.client_tls),
                expects_links=bool(configuration["neighbours"]),
                extra=self._extra,
                recorded=self._recorded,
            )

    def _record(self, broker: str, boot: int) -> Recorder:
        folder = self.configuration.records
        assert folder is not None, "records are wanted"
        values = self.configuration.values
        try:
            if values["records"] is None:
                private.close(folder)  # nobody has said that others may read there
            self._recorder = Recorder(
                folder,
                broker,
                boot,
                rows_max=values["records_rows_max"],
                age_max_s=values["records_age_max"],
                keep_bytes=values["records_keep_bytes"],
            )
        except OSError as error:
            raise SetupError(
                f"the folder for records {folder} cannot be used: {error.strerror}; set `records` to another "
                f"folder, or to off"
            ) from None
        return self._recorder

    def _extra(self) -> dict[str, object]:
        assert self.pages is not None, "it is the pages that ask"
        advertised = self.configuration["advertise"]
        written, lost = self._recorded()
        return {
            "http": address_text(self.pages.address),
            "https": address_text(self.pages.secure_address) if self.pages.secure_address else None,
            "advertise": address_text(advertised) if advertised else self.node.address,
            "records": {"written": written, "lost": lost},
        }

    def _secure(self, client_tls: ClientTls | None) -> tuple[Address, ssl.SSLContext] | None:
        address = self.configuration["https"]
        if address is None:
            return None
        assert client_tls is not None, "`https` without a certificate is refused"
        self._https = Renewable(ssl.PROTOCOL_TLS_SERVER)
        self._https.current = tls.client_context(client_tls)
        return address, self._https

    def _pages_url(self) -> str:
        """Where other brokers reach the pages."""
        assert self.pages is not None, "the pages are being served"
        advertised = self.configuration["http_advertise"]
        if advertised:
            return f"http://{address_text(advertised)}"
        host, port = self.pages.address
        if host in ("0.0.0.0", "::"):  # noqa: S104  # compared, not listened to
            host = (self.configuration["advertise"] or self.configuration["listen"])[0]
        return f"http://{address_text((host, port))}"

    def _recorded(self) -> tuple[int, int]:
        return (self._recorder.rows_written, self._recorder.rows_lost) if self._recorder else (0, 0)

    def reload(self) -> None:
        """Read users, rules and certificates again. What is wrong is logged, and the old ones hold."""
        options = self.node.options
        given = {"users": self.configuration["users_file"], "rules": self.configuration["access_file"]}
        if what := " and ".join(name for name, file in given.items() if file is not None):
            self._renew(what, lambda: self.node.change_access(*read_access(self.configuration)))
        if options.client_tls is not None:
            self._renew("certificates for clients", partial(self._renew_client_tls, options.client_tls))
        if (links := options.tls) is not None:
            self._renew("certificates for links", lambda: self.node.change_link_tls(tls.contexts(links)))

    def _renew(self, what: str, change: Callable[[], None]) -> None:
        try:
            change()
        except TidingsError as error:
            about = {"reason": str(error)}
            LOG.error(f"{what} stay as they were", extra={"broker": self.node.id, "about": about})
        else:
            LOG.info(f"{what} have been read again", extra={"broker": self.node.id, "about": {}})

    def _renew_client_tls(self, shown: ClientTls) -> None:
        context = tls.client_context(shown)
        self.node.change_client_tls(context)
        if self._https is not None:
            self._https.current = context

    async def start(self) -> None:
        """Serve the pages first, so that whoever waits can see why; then the broker."""
        if self.pages is not None:
            await self.pages.start()
            self.node.pages_url = self._pages_url()
        try:
            await self.node.start()
        except BaseException:
            await self._close_pages()
            raise
        if self.pages is not None:
            about = {"http": address_text(self.pages.address)}
            LOG.info("health, metrics and status are served", extra={"broker": self.node.id, "about": about})
        for warning in (*self.configuration.warnings, *self._shortages()):
            LOG.warning(warning, extra={"broker": self.node.id, "about": {}})

    def _shortages(self) -> Iterator[str]:
        wanted, allowed = self.configuration["mqtt_connections_max"], self.node.options.clients_max
        said = wanted != SETTINGS["mqtt_connections_max"].default
        if self.node.options.listening and allowed < (wanted if said else CLIENTS_FEW):
            yield (
                f"mqtt_connections_max is {wanted}, and the system's limit on open files allows {allowed};"
                " raise it (ulimit -n, or LimitNOFILE= of systemd)"
            )

    async def stopped(self) -> str:
        """The reason for which it stopped, empty if it was asked to; then nothing of it runs any more."""
        try:
            return await self.node.stopped()
        finally:
            await self._close_pages()

    async def _close_pages(self) -> None:
        if self.pages is not None:
            await self.pages.stop()


def options_of(configuration: Configuration, files_max: int | None = None) -> NodeOptions:
    """What a node is told."""
    values = configuration.values
    if configuration.closed:
        raise SetupError(configuration.closed)
    host, port = values["listen"]
    users, rights = read_access(configuration)
    return NodeOptions(
        id=values["id"],
        host=host,
        port=port,
        neighbours=tuple(address_text(address) for address in values["neighbours"]),
        folder=values["data"],
        settings=configuration.settings,
        topics=configuration.topics,
        views=values["views"],
        tls=Tls(values["tls_authority"], values["tls_certificate"], values["tls_key"])
        if values["tls_key"]
        else None,
        connections_max=values["connections_max"],
        ungreeted_max=values["ungreeted_max"],
        keep=KeepOptions(Syncing(values["keep_sync"]), values["keep_sync_every"], values["keep_bytes"]),
        mqtt=configuration.mqtt,
        listening=tuple(
            Listening(LISTENERS[name], *address) for name, address in configuration.listeners.items()
        ),
        client_tls=ClientTls(
            values["mqtt_certificate"],
            values["mqtt_key"],
            values["mqtt_client_authority"],
            values["mqtt_client_certificates"] == "required",
        )
        if values["mqtt_certificate"] and values["mqtt_key"]
        else None,
        users=users,
        access=rights,
        clients_max=files.room(files_max, values["mqtt_connections_max"], values["connections_max"]),
        clients_per_host_max=values["mqtt_connections_per_address_max"],
        origins=values["mqtt_origins"],
    )


def read_access(configuration: Configuration) -> tuple[Users | None, Access]:
    """Users and rights, as the files are now. SetupError or InputError says what is wrong with them."""
    users, rules = configuration["users_file"], configuration["access_file"]
    return (
        None if users is None else read_users(users),
        Access(
            access.OPEN if rules is None else access.read_rules(rules),
            anonymous=configuration["anonymous"],
            verify=users is not None,
        ),
    )


async def serve(
    configurations: Sequence[Configuration], ready: Callable[[Service], None] | None = None
) -> dict[str, str]:
    """Run brokers until SIGTERM or SIGINT drains and stops them; a second signal does not wait for that.

    The answer is the reason for which each stopped, by its id; empty for those that were asked to.
    """
    limit = files.raise_limit()
    share = None if limit is None else limit // len(configurations)
    services = [Service(configuration, share) for configuration in configurations]
    loop = asyncio.get_running_loop()
    draining: list[asyncio.Task[str]] = []

    def on_signal() -> None:
        if draining:
            for service in services:
                service.node.stop_now()
        draining.extend(loop.create_task(service.node.stop()) for service in services)

    def on_hangup() -> None:
        for service in services:
            service.reload()

    started: list[Service] = []
    try:
        for service in services:
            await service.start()
            started.append(service)
    except BaseException:
        await asyncio.gather(*(service.node.stop() for service in started))
        await asyncio.gather(*(service.stopped() for service in started))
        raise
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, on_hangup)
    counting = Counting(loop)
    counting.begin()
    try:
        for service in services:
            if ready is not None:
                ready(service)
        reasons = await asyncio.gather(*(service.stopped() for service in services))
    finally:
        counting.end()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
    return {service.node.id: reason for service, reason in zip(services, reasons, strict=True)}


def run(
    configurations: Sequence[Configuration], ready: Callable[[Service], None] | None = None
) -> dict[str, str]:
    """`serve`, on the fastest loop that is installed."""
    _spare_collector()
    factory = None
    with contextlib.suppress(ImportError):
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(serve(configurations, ready))


def _spare_collector() -> None:
    """Have the collector of garbage pass over what is there from the start, which is modules and stays.

    To look at all of it took 50 ms each time, and nothing else happens meanwhile.
    """
    gc.collect()
    gc.freeze()
