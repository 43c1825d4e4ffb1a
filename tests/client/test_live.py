"""`tidings.connect` with the real broker: its listeners, users and rules, and what is left when it dies."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from typer.testing import CliRunner

import tidings
from tidings.cli import app
from tidings.errors import AccessError, NetworkError
from tidings.local.network import wait_for

PATIENCE_S = 120.0

RULES = """\
[[rule]]
allow = true
action = "any"
topic = "#"

[[rule]]
allow = false
action = "any"
topic = "secret/#"
"""


class Broker:
    """A broker in a process of its own, with all its listeners, that can be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, certificate, key = make_certificate(folder)
        (folder / "rules.toml").write_text(RULES, encoding="utf-8")
        users = str(folder / "users")
        added = CliRunner().invoke(
            app, ["user", "add", "ann", "--file", users, "--password-stdin"], input="pw\n"
        )
        assert added.exit_code == 0, added.output
        self.ports: dict[str, str] = dict.fromkeys(("mqtt", "mqtt_tls", "mqtt_ws", "mqtt_wss"), "127.0.0.1:0")
        self._settings = {
            "mqtt_certificate": certificate,
            "mqtt_key": key,
            "users_file": users,
            "access_file": folder / "rules.toml",
            "log_format": "json",
        }
        self.start()

    def start(self) -> None:
        self._log = (self.folder / "log").open("wb")
        settings = [f"--set={name}={value}" for name, value in {**self._settings, **self.ports}.items()]
        command = ["broker", "--id", "b1", "--listen", "127.0.0.1:0", "--http", "off", "--records", "off"]
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from tidings.cli import main; main()",
                *command,
                "--data",
                self.folder,
                *settings,
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
        assert wait_for(lambda: self._told() is not None, PATIENCE_S), (self.folder / "log").read_text()
        told = self._told()
        assert told is not None
        self.ports = {"mqtt" if kind == "tcp" else f"mqtt_{kind}": address for kind, address in told.items()}

    def _told(self) -> dict[str, str] | None:
        for line in (self.folder / "log").read_text(encoding="utf-8").splitlines():
            if "clients are let in" in line:
                about: dict[str, str] = json.loads(line)["about"]
                return about
        return None

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE_S)

    def url(self, scheme: str = "mqtt") -> str:
        listener = {"mqtt": "mqtt", "mqtts": "mqtt_tls", "ws": "mqtt_ws", "wss": "mqtt_wss"}[scheme]
        return f"{scheme}://{self.ports[listener]}"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    started = Broker(tmp_path_factory.mktemp("broker"))
    yield started
    started.kill()


@pytest.fixture(autouse=True)
def _ann(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDINGS_USER", "ann")
    monkeypatch.setenv("TIDINGS_PASSWORD", "pw")


def make_certificate(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate of 127.0.0.1 with its key."""
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in ("authority", "broker")]
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]

    def builder(at: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(names[at])
            .issuer_name(names[0])
            .public_key(keys[at].public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
        )

    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    root = builder(0).add_extension(x509.BasicConstraints(True, None), critical=True)
    made = {
        "authority.pem": root.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM),
        "broker.pem": builder(1)
        .add_extension(own, critical=False)
        .sign(keys[0], hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM),
        "broker.key": keys[1].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    for file, text in made.items():
        (folder / file).write_bytes(text)
    authority, certificate, key = (folder / file for file in made)
    return authority, certificate, key


def connect(broker: Broker, scheme: str = "mqtt", **how: Any) -> tidings.client.network.Network:
    return tidings.connect(broker.url(scheme), authority=str(broker.authority), timeout=PATIENCE_S, **how)


@pytest.mark.parametrize("scheme", ["mqtt", "mqtts", "ws", "wss"])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_filter_works_over_every_listener(broker: Broker, scheme: str, qos: int) -> None:
    with (
        connect(broker, scheme).sync() as network,
        network.subscribe("t/#", where="n > 1", qos=qos) as events,
    ):
        for n in range(4):
            network.publish("t/x", {"n": n}, qos=qos, user={"k": "v"})
        got = [events.next(PATIENCE_S) for _ in range(2)]
    assert [(one.fields["n"], one.qos, one.user("k")) for one in got] == [(2, qos, "v"), (3, qos, "v")]


def test_a_large_report_goes_through_whole(broker: Broker) -> None:
    text = "x" * 1_000_000
    for scheme in ("mqtts", "ws"):
        with connect(broker, scheme).sync() as network, network.subscribe("large") as events:
            network.publish("large", {"text": text})
            assert events.next(PATIENCE_S).fields == {"text": text}


def test_a_certificate_of_an_unknown_authority_is_refused_with_a_way_out(broker: Broker) -> None:
    network = tidings.connect(broker.url("mqtts")).sync()
    with pytest.raises(NetworkError, match="authority="), network:
        pytest.fail("it is not trusted")


def test_a_wrong_password_and_none_are_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AccessError, match="TIDINGS_PASSWORD"), connect(broker, password="wrong").sync():
        pytest.fail("the password is wrong")
    monkeypatch.delenv("TIDINGS_USER")
    monkeypatch.delenv("TIDINGS_PASSWORD")
    with pytest.raises(AccessError, match="refuses the connection"), connect(broker).sync():
        pytest.fail("anonymous clients are not allowed")


@pytest.mark.parametrize("qos", [1, 2])
def test_what_is_not_allowed_is_refused_and_the_connection_stays(broker: Broker, qos: int) -> None:
    with connect(broker).sync() as network:
        with pytest.raises(AccessError, match="secret/x"):
            network.publish("secret/x", {}, qos=qos)
        with pytest.raises(AccessError, match="secret/#"), network.subscribe("secret/#"):
            pytest.fail("it is not allowed")
        network.publish("open", {}, qos=qos)


def test_requests_are_answered(broker: Broker) -> None:
    with connect(broker).sync() as network:
        assert network.request("$tidings/topic/list", {}) == {"ok": True, "topics": []}
        refused = network.request("$tidings/view/remove", {"name": "none"})
    assert refused["ok"] is False
    assert "none" in str(refused["reason"])


def test_nothing_acknowledged_is_lost_when_the_broker_is_killed(tmp_path: Path) -> None:
    broker = Broker(tmp_path)

    async def story() -> list[str]:
        durable: dict[str, Any] = {"client_id": "reader", "session_expiry": 3600}
        async with connect(broker, **durable) as reader, reader.subscribe("t", where="n >= 0"):
            pass
        async with connect(broker, client_id="writer") as writer:
            for n in range(20):
                await writer.publish("t", {"n": n})
            await asyncio.to_thread(broker.kill)
            late = asyncio.create_task(writer.publish("t", {"n": 20}))
            await asyncio.to_thread(broker.start)
            async with asyncio.timeout(PATIENCE_S):
                await late
        async with connect(broker, **durable) as reader, reader.subscribe("t", where="n >= 0") as events:
            assert reader.session_present
            return [(await events.next(PATIENCE_S)).text for _ in range(21)]

    try:
        assert asyncio.run(story()) == [f'{{"n":{n}}}' for n in range(21)]
    finally:
        broker.kill()
