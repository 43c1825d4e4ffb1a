"""Help for live tests: loops, waiting for conditions, certificates, a broker that knows no other broker."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
import uvloop

from tidings.live.node import Node, NodeOptions
from tidings.live.store import Store
from tidings.overlay import events as e

WITHIN_S = 60.0
"""No test waits longer for anything: far more than a busy machine needs."""

T = TypeVar("T")


def run(story: Callable[[], Coroutine[Any, Any, T]], runner: Callable[..., Any] = uvloop.run) -> T:
    """Runs a story on a loop of its own, of the kind that brokers have."""

    async def bounded() -> T:
        async with asyncio.timeout(2 * WITHIN_S):
            return await story()

    told: T = runner(bounded())
    return told


def reasons(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    """Of the log lines with this text."""
    return [record.__dict__["about"]["reason"] for record in caplog.records if record.message == text]


async def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Waits until it holds, turning the loop; nobody tells us, so it is looked at every few milliseconds."""
    deadline = asyncio.get_running_loop().time() + WITHIN_S
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, f"{what} did not come about"
        await asyncio.sleep(0.005)


class LocalStatus(msgspec.Struct):
    id: str


class LocalBroker:
    """The smallest broker: it stops when it is asked to. What happened to it is in `heard`."""

    indexed = False
    catalogue: Any = None

    def __init__(self, options: NodeOptions, store: Store) -> None:
        self.id = options.id
        self.kept: Callable[[], dict[tuple[str, str], float]] = dict
        self.saved = dict(store.saved)
        self.boot = store.identity.boot
        self.heard: list[e.Event] = []
        self.effects: dict[type, list[e.Effect]] = {}
        """What else to answer, by kind of event."""

    def start(self, now: float) -> list[e.Effect]:
        return []

    def has_heard_of(self, name: str) -> bool:
        return name == self.id

    def status(self, now: float, *, filters: bool = False) -> LocalStatus:
        return LocalStatus(self.id)

    def handle_all(self, events: Sequence[e.Event], now: float) -> list[e.Effect]:
        return [effect for event in events for effect in self.handle(event, now)]

    def handle(self, event: e.Event, now: float) -> list[e.Effect]:
        self.heard.append(event)
        out: list[e.Effect] = list(self.effects.get(type(event), ()))
        if isinstance(event, e.StopAsked):
            out.append(e.Stop())
        return out

    def told(self, kind: type[T]) -> list[T]:
        return [event for event in self.heard if isinstance(event, kind)]

    @property
    def broker(self) -> LocalBroker:
        """It is its own front, at which no client ever is."""
        return self

    def owns(self, session: str) -> bool:
        return False

    def is_connected(self, client: str) -> bool:
        return False


def local_node(folder: Path | None = None, **options: Any) -> Node:
    return Node(NodeOptions("a", folder=folder, **options), front=LocalBroker)


def local_broker(node: Node) -> LocalBroker:
    assert isinstance(node.broker, LocalBroker)
    return node.broker


def make_authority(folder: Path, name: str = "authority") -> Callable[[str], tuple[Path, Path, Path]]:
    """A certificate authority; calling it gives authority, certificate and key files for a name."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    start = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    end = start + datetime.timedelta(days=10)
    folder.mkdir(parents=True, exist_ok=True)

    def called(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    root_key = ec.generate_private_key(ec.SECP256R1())
    root = (
        x509.CertificateBuilder()
        .subject_name(called(name))
        .issuer_name(called(name))
        .public_key(root_key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(root_key, hashes.SHA256())
    )
    authority = folder / f"{name}.pem"
    authority.write_bytes(root.public_bytes(serialization.Encoding.PEM))

    def issue(broker: str) -> tuple[Path, Path, Path]:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder()
            .subject_name(called(broker))
            .issuer_name(called(name))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(end)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(broker)]), critical=False)
            .sign(root_key, hashes.SHA256())
        )
        files = folder / f"{name}-{broker}.pem", folder / f"{name}-{broker}.key"
        files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        files[1].write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return authority, *files

    return issue
