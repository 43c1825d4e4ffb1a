"""Brokers as a service: what a node is told, and that a start that fails leaves nothing behind."""

from __future__ import annotations

import asyncio
import io
import logging
import ssl
from pathlib import Path

import pytest

from tests.live.local import make_authority, reasons, until
from tests.live.local import run as run_story
from tests.live.mqtt import V5, RawClient
from tidings.errors import SetupError
from tidings.live.listeners import Listening
from tidings.live.node import NodeOptions
from tidings.live.service import Service, options_of, serve
from tidings.local.network import free_ports
from tidings.mqtt.events import Access
from tidings.mqtt.packets import Connack, Connect, Pingreq, Pingresp
from tidings.overlay.settings import Settings
from tidings.service import addresses, logs
from tidings.service.access import OPEN
from tidings.service.config import Configuration, load
from tidings.service.logs import LOGGER
from tidings.service.tls import Tls


def configuration(**flags: object) -> Configuration:
    plain = {"id": "b1", "listen": "127.0.0.1:0", "http": "127.0.0.1:0", "mqtt": "off"}
    return load(None, {}, {**plain, **flags})


def test_a_node_is_told_what_is_configured(tmp_path: Path, root: Path) -> None:
    made = options_of(
        configuration(
            listen="[::1]:7",
            neighbours=["h:1", "[::2]:2"],
            data=str(tmp_path),
            network="n",
            topics=[str(root / "examples" / "traffic-athens.toml")],
            tls_authority="/ca",
            tls_certificate="/cert",
            tls_key="/key",
            connections_max=9,
            ungreeted_max=8,
            mqtt="[::1]:5",
            anonymous=True,
            mqtt_connections_max=4,
        )
    )
    assert [topic.name for topic in made.topics] == ["traffic/athens"]
    assert made == NodeOptions(
        id="b1",
        host="::1",
        port=7,
        neighbours=("h:1", "[::2]:2"),
        folder=tmp_path,
        settings=Settings(network="n"),
        topics=made.topics,
        tls=Tls(Path("/ca"), Path("/cert"), Path("/key")),
        connections_max=9,
        ungreeted_max=8,
        listening=(Listening("tcp", "::1", 5),),
        access=Access(OPEN, anonymous=True),
        clients_max=4,
    )


def test_the_defaults_are_those_of_the_node() -> None:
    plain = load(None, {}, {"id": "b1", "mqtt": "off", "anonymous": True})
    assert options_of(plain) == NodeOptions(id="b1", port=7883, access=Access(OPEN, anonymous=True))


def test_a_broker_that_nobody_could_connect_to_does_not_start() -> None:
    with pytest.raises(SetupError, match="nobody could connect at mqtt: there are no users"):
        options_of(load(None, {}, {"id": "b1"}))


def test_there_are_no_more_clients_than_files_allow() -> None:
    assert options_of(configuration(), 20_000).clients_max == 20_000 - 1024 - 256
    assert options_of(configuration(mqtt_connections_max=7), 20_000).clients_max == 7


def test_status_says_where_its_pages_are_and_what_to_dial() -> None:
    async def told() -> dict[str, object]:
        service = Service(configuration(advertise="broker.example:1883"))
        await service.start()
        extra = service._extra()
        await service.node.stop()
        await service.stopped()
        return extra

    extra = asyncio.run(told())
    assert extra["advertise"] == "broker.example:1883"
    assert str(extra["http"]).startswith("127.0.0.1:")
    assert extra["records"] == {"written": 0, "lost": 0}


def test_a_folder_for_records_that_cannot_be_used_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(SetupError, match=r"file/records cannot be used: .*; set `records` to another"):
        asyncio.run(serve([configuration(records=str(tmp_path / "file" / "records"))]))


async def shown(address: str, authority: Path, own: tuple[Path, Path]) -> str:
    """By whom the certificate was signed that a broker shows to who believes an authority; or "refused"."""
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    context.load_cert_chain(*own)
    host, port = addresses.read(address)
    try:
        reader, writer = await asyncio.open_connection(host, port, ssl=context)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        # With TLS 1.3 a server says only behind the handshake that it does not take our certificate.
        await reader.read(1)
    except ssl.SSLError:
        return "refused"
    issuer = writer.get_extra_info("peercert")["issuer"]
    writer.close()
    return str(issuer[0][0][1])


def test_certificates_are_read_again_for_those_who_come_then(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(logging.getLogger("tidings.broker"), "propagate", True)
    authorities = {name: make_authority(tmp_path / name, name)("b1") for name in ("old", "new")}
    names = ("ca.pem", "b1.pem", "b1.key")

    def put(which: str) -> None:
        for name, file in zip(names, authorities[which], strict=True):
            (tmp_path / name).write_bytes(file.read_bytes())

    put("old")
    files = [str(tmp_path / name) for name in names]
    links = dict(zip(("tls_authority", "tls_certificate", "tls_key"), files, strict=True))
    clients = dict(zip(("mqtt_client_authority", "mqtt_certificate", "mqtt_key"), files, strict=True))
    settings = {"mqtt_tls": "127.0.0.1:0", "mqtt_wss": "127.0.0.1:0", "https": "127.0.0.1:0", **links}

    async def story() -> None:
        service = Service(configuration(**settings, **clients, mqtt_client_certificates="required"))
        await service.start()
        node, pages = service.node, service.pages
        await until(lambda: not node.synchronising)
        assert pages is not None
        assert pages.secure_address is not None
        places = [node.address, *node.mqtt_addresses.values(), addresses.write(*pages.secure_address)]
        assert len(places) == 4

        async def seen(authority: str) -> set[str]:
            believed, *own = authorities[authority]
            return {await shown(place, believed, (own[0], own[1])) for place in places}

        assert (await seen("old"), await seen("new")) == ({"old"}, {"refused"})
        host, port = addresses.read(node.mqtt_addresses["tls"])
        believed, certificate, key = authorities["old"]
        context = ssl.create_default_context(cafile=believed)
        context.check_hostname = False
        context.load_cert_chain(certificate, key)
        early = RawClient(*await asyncio.open_connection(host, port, ssl=context))
        early.send(Connect(V5, "early"))
        await early.next(Connack)

        put("new")
        service.reload()
        assert (await seen("old"), await seen("new")) == ({"refused"}, {"new"})
        early.send(Pingreq())
        await early.next(Pingresp)

        # The certificate of one and the key of another: neither half of it is taken.
        (tmp_path / "b1.key").write_bytes(authorities["old"][2].read_bytes())
        service.reload()
        assert (await seen("old"), await seen("new")) == ({"refused"}, {"new"})
        for what in ("clients", "links"):
            (reason,) = reasons(caplog, f"certificates for {what} stay as they were")
            assert "b1.pem" in reason
            assert "are not a certificate and its key" in reason
            assert f"certificates for {what} have been read again" in caplog.messages
        await node.stop()
        await service.stopped()

    run_story(story)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((), []),
        (("users_file",), ["users have been read again"]),
        (("access_file",), ["rules have been read again"]),
        (("users_file", "access_file"), ["users and rules have been read again"]),
    ],
)
def test_only_what_was_read_is_said_to_have_been_read_again(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
    said: list[str],
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(logging.getLogger("tidings.broker"), "propagate", True)
    files = {name: tmp_path / name for name in given}
    for file in files.values():
        file.touch(mode=0o600)

    async def story() -> None:
        service = Service(configuration(**{name: str(file) for name, file in files.items()}))
        await service.start()
        service.reload()
        await service.node.stop()
        await service.stopped()

    run_story(story)
    assert [text for text in caplog.messages if "read again" in text] == said


def test_if_one_cannot_start_all_are_stopped() -> None:
    """The port of the first is free again once the second has failed."""
    port = free_ports(1, 25_000)[0]
    first = configuration(listen=f"127.0.0.1:{port}")
    second = configuration(id="b2", listen=f"127.0.0.1:{port}")
    with pytest.raises(SetupError, match="cannot listen at"):
        asyncio.run(serve([first, second]))
    assert free_ports(1, port) == [port]


def test_when_it_stops_it_says_how_many_lines_were_kept_back() -> None:
    stream, logger = io.StringIO(), logging.getLogger(LOGGER)
    before = logger.handlers, logger.level, logger.propagate
    stopping: list[asyncio.Task[str]] = []

    def ready(service: Service) -> None:
        for port in range(150):
            about = {"address": f"192.0.2.1:{port}"}
            logger.info("a client is connected", extra={"broker": "b1", "about": about})
        stopping.append(asyncio.get_running_loop().create_task(service.node.stop()))

    try:
        logs.configure(stream=stream)
        asyncio.run(serve([configuration()], ready))
    finally:
        logger.handlers, logger.level, logger.propagate = before
    assert "50 more lines 'a client is connected' were kept back" in stream.getvalue()
