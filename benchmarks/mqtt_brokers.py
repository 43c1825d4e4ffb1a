"""Brokers to measure: started as a user would, each with a folder of its own, and what they use.

Every process that is started here is ended here, by its number, whatever happens. Mosquitto is Debian's,
with what it does by itself, but for a listener that lets everybody in and limits that would make it drop
messages or keep fewer under way than ours; durable sessions are in its memory alone. Tidings has its shipped
defaults: records on, and what a durable session is owed on disk before PUBACK, fsync grouped.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 30.0
"""A broker that does not listen by then is not going to."""

MOSQUITTO = """\
# Everybody may come in, by TCP and by TLS, on this machine.
allow_anonymous true
listener {port} 127.0.0.1
listener {tls_port} 127.0.0.1
certfile {certificate}
keyfile {key}
# Its default drops messages of QoS 0 beyond 1,000 in a queue, and would lose some of what is counted.
max_queued_messages 0
# As many under way as Tidings allows; its default is 20.
max_inflight_messages 1024
set_tcp_nodelay true
"""

END_S = 10.0
"""A process that was asked to end and has not by then is killed."""

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a broker and the processes that it started have used."""

    cpu_s: float
    rss_bytes: int


class Broker:
    """A broker that runs."""

    def __init__(
        self, name: str, process: subprocess.Popen[bytes], port: int, tls_port: int, link_port: int
    ) -> None:
        self.name = name
        self.process = process
        self.port = port
        self.tls_port = tls_port
        self.link_port = link_port

    @property
    def content(self) -> bool:
        """Whether it knows content filters."""
        return self.name == "tidings"

    def usage(self) -> Usage:
        return usage(self.process.pid)


def versions() -> dict[str, str]:
    """The brokers that are on this machine."""
    found: dict[str, str] = {}
    if (program := mosquitto()) is not None:
        told = subprocess.run([program, "-h"], capture_output=True, text=True, check=False).stdout
        found["mosquitto"] = told.splitlines()[0].removeprefix("mosquitto version ") if told else "?"
    command = "from importlib.metadata import version; print(version('tidings-network'))"
    told = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=False).stdout
    found["tidings"] = told.strip()
    return found


def mosquitto() -> str | None:
    # Debian puts it where a user's PATH does not lead.
    return shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")


@contextlib.contextmanager
def running(name: str, folder: Path, options: Sequence[str] = ()) -> Iterator[Broker]:
    """A broker of a name, with an empty folder, until the end of the block; options are for ours."""
    # Ten thousand connections need as many open files, for the broker as for the load.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    certificate, key = make_certificate(folder)
    port, tls_port, link_port = free_ports(3)
    if name == "mosquitto":
        program = mosquitto()
        assert program is not None, "mosquitto is not on this machine"
        settings = folder / "mosquitto.conf"
        settings.write_text(
            MOSQUITTO.format(port=port, tls_port=tls_port, certificate=certificate, key=key), encoding="utf-8"
        )
        command = [program, "-c", str(settings)]
    else:
        given = {
            "mqtt": f"127.0.0.1:{port}",
            "mqtt_tls": f"127.0.0.1:{tls_port}",
            "mqtt_certificate": str(certificate),
            "mqtt_key": str(key),
            "anonymous": "true",
        }
        command = [str(Path(sys.executable).with_name("tidings")), "broker", "--id", "bench", "--http", "off"]
        command += ["--listen", f"127.0.0.1:{link_port}", "--data", str(folder / "data")]
        for setting, value in given.items():
            command += ["--set", f"{setting}={value}"]
        command += options
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        await_listener(process, port, folder / "log")
        await_listener(process, tls_port, folder / "log")
        broker = Broker(name, process, port, tls_port, link_port)
        _await_calm(broker)
        yield broker
    finally:
        end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that we started, kindly at first."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def make_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for this machine, and its key, as files. It signs itself, so it is its own authority."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate_path, key_path = folder / "certificate.pem", folder / "key.pem"
    certificate_path.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    # Mosquitto, started by root, reads it as somebody else. It is worth nothing and lives for this run.
    key_path.chmod(0o644)
    return certificate_path, key_path


def free_ports(count: int) -> list[int]:
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


def await_listener(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    told = log.read_text(encoding="utf-8", errors="replace")[-2000:]
    raise RuntimeError(f"{process.args!r} does not listen on port {port}; it said:\n{told}")


def _await_calm(broker: Broker) -> None:
    """Wait until a broker has done what it does at its start: it may listen while it still loads things."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        before = broker.usage().cpu_s
        time.sleep(0.3)
        if broker.usage().cpu_s - before <= TICK_S:
            return


def usage(number: int) -> Usage:
    """Of a process and those that it started."""
    numbers = [number, *_children(number)]
    return Usage(sum(map(_cpu_s, numbers)), sum(map(_rss_bytes, numbers)))


def _children(parent: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(OSError):
            for number in (task / "children").read_text().split():
                found += [int(number), *_children(int(number))]
    return found


def _cpu_s(number: int) -> float:
    """User and system time of a process, with that of its children that have ended."""
    try:
        text = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return 0.0
    # The name, in parentheses, may have blanks.
    fields = text.rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) * TICK_S


def _rss_bytes(number: int) -> int:
    try:
        lines = Path(f"/proc/{number}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))
