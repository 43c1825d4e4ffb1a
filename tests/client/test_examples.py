"""The programs of docs/clients.md and the quick start of the README, run with a network of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import tidings
from tidings.local.network import wait_for

PATIENCE_S = 120.0
WHERE = "severity >= 3"
WRONG = "severity >="

Network = Mapping[str, str]
"""The environment in which commands find the network."""


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Network]:
    """What the README's first command starts; the rest of its commands find it."""
    folder = tmp_path_factory.mktemp("network")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIDINGS_")}
    environment |= {
        "XDG_RUNTIME_DIR": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "TMPDIR": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}",
        "COLUMNS": "200",
    }
    first = blocks(root)[0][0]
    assert first.startswith("tidings up ")
    shell(first, environment)
    try:
        state = json.loads((folder / "tidings" / "network.json").read_text(encoding="utf-8"))
        environment["MQTT_PORT"] = state["members"][0]["mqtt"].rpartition(":")[2]
        # On most machines this is 1883; where that is taken the printed commands still reach our network.
        for program in ("mosquitto_sub", "mosquitto_pub"):
            (folder / program).write_text(f"-p {environment['MQTT_PORT']}\n", encoding="utf-8")
        yield environment
    finally:
        shell("tidings down", environment)


def blocks(root: Path) -> list[list[str]]:
    """The commands of the quick start, block by block, without their comments."""
    text = (root / "README.md").read_text(encoding="utf-8")
    section = text.partition("\n## Quick start\n")[2].partition("\n## ")[0]
    return [
        [line.partition("  #")[0].strip() for line in block.splitlines() if line.strip()]
        for block in re.findall(r"^```sh\n(.*?)^```", section, re.S | re.M)
    ]


def shell(command: str, environment: Network) -> str:
    done = subprocess.run(
        ["sh", "-c", command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Running:
    """A program that goes on; what it writes is read from files."""

    def __init__(self, command: list[str], environment: Network, folder: Path, name: str) -> None:
        self.out, self.err = folder / f"{name}.out", folder / f"{name}.err"
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.out.open("wb"), stderr=self.err.open("wb")
        )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        assert wait_for(condition, PATIENCE_S), f"{what}: {self.texts()}"

    def texts(self) -> tuple[str, str]:
        return self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8")

    def end(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE_S)


def publish(environment: Network, *severities: int) -> None:
    with tidings.connect(f"mqtt://127.0.0.1:{environment['MQTT_PORT']}").sync() as network:
        for severity in severities:
            network.publish("traffic/thebes", {"severity": severity})


# The quick start.


def test_the_quick_start_works_as_printed(
    network: Network, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (_, declare), (subscribe,), reports, (show,), (mosquitto_sub, mosquitto_pub), (down,) = blocks(root)
    monkeypatch.chdir(root)
    shell(declare, network)
    ours = Running(["sh", "-c", f"exec {subscribe}"], network, tmp_path, "ours")
    try:
        ours.until(lambda: "subscribed to" in ours.texts()[1], subscribe)
        for command in reports:
            shell(command, network)
        ours.until(lambda: "fire in lane 2" in ours.texts()[0], subscribe)
        (told,) = ours.texts()[0].splitlines()
        topic, _, rest = told.partition(" ")
        fields, _, about = rest.rpartition(" (")
        expected = {"place": "Omonia", "road": "A1", "severity": 4, "note": "fire in lane 2"}
        assert (topic, json.loads(fields)) == ("traffic/athens", expected)
        # On a slow machine the clock runs out between two commands, and the event is told twice.
        assert re.fullmatch(r"told, version [12], 2 reports\)", about)
        # Counts are those that the seat has last told the others.
        ours.until(lambda: "4 received, of which" in shell(show, network), show)
        said = shell(show, network)
        assert "2 opened an event, 1 merged, 1 were redundant" in said
        assert "suppressed: 50.0% of the reports" in said
        if shutil.which("mosquitto_sub"):
            theirs = Running(["sh", "-c", f"exec {mosquitto_sub}"], network, tmp_path, "theirs")
            try:
                # What is open comes first, and shows that it has subscribed.
                theirs.until(lambda: "state:snapshot" in theirs.texts()[0], mosquitto_sub)
                shell(mosquitto_pub, network)
                theirs.until(lambda: "Syntagma" in theirs.texts()[0], mosquitto_pub)
                first, second = theirs.texts()[0].splitlines()
                assert "Omonia" in first
                assert "state:told" in second
                assert '"severity":5' in second
            finally:
                theirs.end()
        assert down == "tidings down"
    finally:
        assert ours.end() == 0
        # The programs below have the network for themselves.
        shell("tidings topic remove traffic/athens --force", network)


# The programs.


def python(root: Path, network: Network, folder: Path) -> list[str]:
    url = f"mqtt://127.0.0.1:{network['MQTT_PORT']}"
    return [sys.executable, str(root / "examples/clients/subscribe.py"), url]


def javascript(root: Path, network: Network, folder: Path) -> list[str]:
    modules = os.environ.get("TIDINGS_TEST_NODE_PATH")
    if shutil.which("node") is None or not modules:
        pytest.skip("needs node, and the package mqtt where TIDINGS_TEST_NODE_PATH says")
    url = f"mqtt://127.0.0.1:{network['MQTT_PORT']}"
    return ["env", f"NODE_PATH={modules}", "node", str(root / "examples/clients/subscribe.js"), url]


def go(root: Path, network: Network, folder: Path) -> list[str]:
    module = os.environ.get("TIDINGS_TEST_GO_MODULE")
    if shutil.which("go") is None or not module:
        pytest.skip("needs go, and a module with paho.golang where TIDINGS_TEST_GO_MODULE says")
    program = folder / "subscribe"
    source = root / "examples/clients/subscribe.go"
    subprocess.run(["go", "build", "-o", str(program), str(source)], cwd=module, check=True)
    return [str(program), f"127.0.0.1:{network['MQTT_PORT']}"]


def java(root: Path, network: Network, folder: Path) -> list[str]:
    path = os.environ.get("TIDINGS_TEST_JAVA_CLASSPATH")
    if shutil.which("java") is None or not path:
        pytest.skip("needs java, and the HiveMQ client where TIDINGS_TEST_JAVA_CLASSPATH says")
    source = root / "examples/clients/Subscribe.java"
    return ["java", "-cp", path, str(source), "127.0.0.1", network["MQTT_PORT"]]


def c(root: Path, network: Network, folder: Path) -> list[str]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    source, program = root / "examples/clients/subscribe.c", folder / "subscribe"
    if compiler is None:
        pytest.skip("needs a C compiler")
    probe = [compiler, "-E", "-include", "mosquitto.h", "-x", "c", os.devnull]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        pytest.skip("needs libmosquitto and its headers")
    subprocess.run(
        [compiler, "-Wall", "-Wextra", "-Werror", str(source), "-lmosquitto", "-o", str(program)], check=True
    )
    return [str(program), "127.0.0.1", network["MQTT_PORT"]]


LANGUAGES = [python, javascript, go, java, c]
Made = Callable[[Path, Network, Path], list[str]]


@pytest.mark.parametrize("made", LANGUAGES)
def test_a_filter_subscription_delivers_what_matches(
    made: Made, root: Path, network: Network, tmp_path: Path
) -> None:
    program = Running([*made(root, network, tmp_path), WHERE, "2"], network, tmp_path, "program")
    try:
        program.until(lambda: "subscribed" in program.texts()[1], "the subscription")
        publish(network, 2, 3, 1, 4)
        program.until(lambda: program.process.poll() is not None, "the end")
    finally:
        code = program.end()
    assert code == 0, program.texts()
    assert program.texts()[0].splitlines() == [
        'traffic/thebes {"severity":3}',
        'traffic/thebes {"severity":4}',
    ]


@pytest.mark.parametrize("made", LANGUAGES)
def test_a_refused_filter_is_told_with_its_place(
    made: Made, root: Path, network: Network, tmp_path: Path
) -> None:
    program = Running([*made(root, network, tmp_path), WRONG, "1"], network, tmp_path, "program")
    try:
        program.until(lambda: program.process.poll() is not None, "the refusal")
    finally:
        code = program.end()
    assert code == 1, program.texts()
    assert "refused: " in program.texts()[1]
    assert "(at character 12)" in program.texts()[1]


def test_the_page_shows_the_programs_as_they_are(root: Path) -> None:
    page = (root / "docs" / "clients.md").read_text(encoding="utf-8")
    shown = re.findall(r"^```\w+\n(.*?)^```", page, re.S | re.M)
    programs = sorted((root / "examples" / "clients").iterdir())
    assert len([file for file in programs if file.is_file()]) == len(LANGUAGES)
    assert [
        file.name for file in programs if file.is_file() and file.read_text(encoding="utf-8") not in shown
    ] == []
