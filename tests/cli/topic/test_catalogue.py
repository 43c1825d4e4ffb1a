"""`tidings topic` and `tidings view` against brokers that run: two of them, linked, in this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from tests.live.local import WITHIN_S, until
from tidings.cli import app
from tidings.client.network import connect
from tidings.live.listeners import Listening
from tidings.live.node import Node, NodeOptions
from tidings.local.network import wait_for

T = TypeVar("T")

MQTT = (Listening("tcp", "127.0.0.1", 0),)

ATHENS = """\
# kept as it was written
name = "traffic/athens"
kind = "plain"
[fields]
severity = { type = "int" }
"""

FLEET = 'name = "fleet/+vehicle/status"\nkind = "plain"\n'


class Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * WITHIN_S)

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.run(until(condition, what))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Network:
    """Brokers "a" and "b", where MQTT clients may come in."""

    def __init__(self, loop: Loop, folder: Path) -> None:
        self._loop = loop
        self._folder = folder
        self.nodes: dict[str, Node] = {}
        self.start("a")
        self.start("b", self.nodes["a"].address)

    def start(self, id_: str, *neighbours: str) -> None:
        folder = self._folder / id_
        node = Node(NodeOptions(id_, neighbours=neighbours, folder=folder, listening=MQTT))
        self._loop.run(node.start())
        self._loop.until(lambda: not node.synchronising, f"{id_} lets clients in")
        self.nodes[id_] = node

    def stop(self, id_: str) -> None:
        self._loop.run(self.nodes.pop(id_).stop())

    def url(self, id_: str) -> str:
        return f"mqtt://{self.nodes[id_].mqtt_addresses['tcp']}"

    def knows(self, id_: str, kind: str, *names: str) -> None:
        """Wait until a broker has exactly these entries."""
        catalogue = self.nodes[id_].broker.catalogue
        self._loop.until(
            lambda: [entry.name for entry in catalogue.entries(kind)] == list(names),
            f"{id_} knows {names}",
        )

    def tidings(self, id_: str, *arguments: str) -> Result:
        """A command, run against one of the brokers."""
        return CliRunner().invoke(app, [*arguments, "--url", self.url(id_)])


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    made = Loop()
    yield made
    made.close()


@pytest.fixture
def network(loop: Loop, tmp_path: Path) -> Iterator[Network]:
    made = Network(loop, tmp_path)
    yield made
    for id_ in list(made.nodes):
        made.stop(id_)


@pytest.fixture
def athens(tmp_path: Path) -> Path:
    file = tmp_path / "athens.toml"
    file.write_text(ATHENS, encoding="utf-8")
    return file


def test_a_topic_is_declared_at_one_broker_shown_at_another_and_removed(
    network: Network, athens: Path
) -> None:
    done = network.tidings("a", "topic", "declare", str(athens))
    assert (done.exit_code, done.stdout) == (0, "declared traffic/athens\n"), done.stderr
    network.knows("b", "topic", "traffic/athens")
    assert network.tidings("b", "topic", "show", "fleet/v7/status").exit_code == 1
    athens.write_text(FLEET, encoding="utf-8")
    assert network.tidings("a", "topic", "declare", str(athens)).exit_code == 0
    network.knows("b", "topic", "fleet/+vehicle/status", "traffic/athens")
    governed = network.tidings("b", "topic", "show", "fleet/v7/status")
    assert (governed.exit_code, governed.stdout) == (0, FLEET)
    assert governed.stderr == "fleet/v7/status is governed by the declaration fleet/+vehicle/status\n"
    as_json = json.loads(network.tidings("b", "topic", "show", "fleet/v7/status", "--json").stdout)
    assert (as_json["name"], as_json["text"]) == ("fleet/+vehicle/status", FLEET)
    assert network.tidings("b", "topic", "remove", "fleet/+vehicle/status", "--force").exit_code == 0
    network.knows("b", "topic", "traffic/athens")
    listed = json.loads(network.tidings("b", "topic", "list", "--json").stdout)
    assert listed == {
        "topics": [
            {
                "name": "traffic/athens",
                "version": 1,
                "broker": "a",
                "kind": "plain",
                "fields": 1,
                "text": ATHENS,
            }
        ]
    }
    assert "traffic/athens" in network.tidings("b", "topic", "list").stdout
    assert network.tidings("b", "topic", "show", "traffic/athens").stdout == ATHENS
    removed = network.tidings("b", "topic", "remove", "traffic/athens")
    assert (removed.exit_code, removed.stdout) == (0, "removed traffic/athens\n")
    network.knows("a", "topic")
    again = network.tidings("a", "topic", "remove", "traffic/athens")
    assert again.exit_code == 1
    assert "'traffic/athens'" in again.stderr
    assert network.tidings("a", "topic", "show", "traffic/athens").exit_code == 1
    assert "no topic is declared" in network.tidings("a", "topic", "list").stderr


def test_what_breaks_is_refused_with_all_that_it_breaks_unless_it_is_forced(
    network: Network, athens: Path
) -> None:
    other = athens.with_name("other.toml")
    other.write_text('name = "sea"\nkind = "plain"', encoding="utf-8")
    assert network.tidings("a", "topic", "declare", str(athens)).exit_code == 0
    gathered = ATHENS.replace("plain", 'gathered"\nkey = ["place"]\n#"').replace(
        "[fields]", "[fields]\nplace.type = 'string'"
    )
    athens.write_text(gathered, encoding="utf-8")
    refused = network.tidings("a", "topic", "declare", str(athens), str(other))
    assert refused.exit_code == 1
    assert refused.stdout == "declared sea\n"
    assert "kind: plain becomes gathered" in refused.stderr
    assert "--force" in refused.stderr
    forced = network.tidings("a", "topic", "declare", str(athens), "--force")
    assert forced.exit_code == 0
    assert forced.stderr == ""


GATHERED = """\
name = "traffic/athens"
kind = "gathered"
key = ["place"]
merge_after = 0
[fields]
place = { type = "string" }
severity = { type = "int", conflict = "max" }
"""


def test_show_says_who_gathers_and_what_was_suppressed_and_can_be_declared_again(
    network: Network, athens: Path
) -> None:
    athens.write_text(GATHERED, encoding="utf-8")
    assert network.tidings("a", "topic", "declare", str(athens)).exit_code == 0
    network.knows("b", "topic", "traffic/athens")
    for severity in (2, 4, 4, 1):
        report = ("traffic/athens", "place=Omonia", f"severity={severity}")
        assert network.tidings("a", "pub", *report).exit_code == 0

    def gathered(id_: str) -> dict[str, Any]:
        told = json.loads(network.tidings(id_, "topic", "show", "traffic/athens", "--json").stdout)
        assert told["text"] == GATHERED
        (seat,) = told["gathered"]
        assert isinstance(seat, dict)
        return seat

    assert wait_for(lambda: bool(gathered("a")["seat"]), WITHIN_S), "a knows who gathers"
    seat = str(gathered("a")["seat"])
    assert wait_for(lambda: gathered(seat)["told"] == 2, WITHIN_S), "both versions are told"
    at_seat = gathered(seat)
    assert (at_seat["mine"], at_seat["open"], at_seat["suppression"]) == (True, 1, 0.75)
    assert {at_seat["seat"], at_seat["deputy"]} == {"a", "b"}
    said = network.tidings(seat, "topic", "show", "traffic/athens").stdout
    assert said.startswith(GATHERED.rstrip("\n") + "\n\n# Gathered now:\n")
    assert f"#   seat {seat}, deputy {at_seat['deputy']}; open events: 1\n" in said
    assert f"#   reports since {seat} has the seat: 4 received, of which 1 opened an event, 1 merged" in said
    assert "suppressed: 75.0% of the reports" in said
    athens.write_text(said, encoding="utf-8")
    assert network.tidings("a", "topic", "declare", str(athens)).exit_code == 0
    assert network.tidings("a", "topic", "show", "traffic/athens").stdout.count("# Gathered now:") == 1


def test_a_wrong_file_is_told_by_its_lines_before_anything_is_sent(network: Network, athens: Path) -> None:
    wrong = athens.with_name("wrong.toml")
    wrong.write_text("name = 7\nkind = 'plain'\ncolour = 1", encoding="utf-8")
    done = network.tidings("a", "topic", "declare", str(athens), str(wrong))
    assert done.exit_code == 2
    assert [line.partition(": ")[0] for line in done.stderr.splitlines()] == [f"{wrong}:1", f"{wrong}:3"]
    network.knows("a", "topic")


def test_a_declaration_holds_for_who_publishes_at_once_and_after_a_restart(
    network: Network, loop: Loop, athens: Path
) -> None:
    assert network.tidings("b", "topic", "declare", str(athens)).exit_code == 0
    network.knows("a", "topic", "traffic/athens")
    network.stop("a")
    network.stop("b")
    network.start("a")
    network.knows("a", "topic", "traffic/athens")
    wrong = network.tidings("a", "pub", "traffic/athens", "severity=high")
    assert wrong.exit_code != 0
    assert "severity" in str(wrong.exception) + wrong.output
    assert network.tidings("a", "pub", "traffic/athens", "severity=3").exit_code == 0


def test_a_view_is_added_listed_used_and_removed(network: Network, loop: Loop) -> None:
    asked = ("--from", "traffic/#", "--where", "severity >= 3", "--every", "90s")
    added = network.tidings("a", "view", "add", "severe", *asked)
    assert (added.exit_code, added.stdout) == (0, "added severe; subscribe to view/severe/#\n"), added.stderr
    network.knows("b", "view", "severe")
    (told,) = json.loads(network.tidings("b", "view", "list", "--json").stdout)["views"]
    assert told["from"] == "traffic/#"
    assert (told["where"], told["every"]) == ("severity >= 3", "90s")
    assert (told["unknown"], told["version"], told["broker"]) == ("wait", 1, "a")
    assert "severe" in network.tidings("b", "view", "list").stdout

    async def watch() -> list[tuple[str, object]]:
        async with (
            asyncio.timeout(WITHIN_S),
            connect(network.url("b")) as reader,
            connect(network.url("a")) as writer,
            reader.subscribe("view/severe/#") as deliveries,
        ):
            for severity in (1, 4):
                await writer.publish("traffic/athens", {"severity": severity})
            async for delivery in deliveries:
                return [(delivery.topic, delivery.fields)]
        return []

    assert loop.run(watch()) == [("view/severe/traffic/athens", {"severity": 4})]
    assert network.tidings("b", "view", "remove", "severe").exit_code == 0
    network.knows("a", "view")
    assert network.tidings("a", "view", "remove", "severe").exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("a/b", "--from", "t/#"), "name:"),
        (("v", "--from", "t/#/x"), "from:"),
        (("v", "--from", "t", "--where", "x >"), "where:"),
        (("v", "--from", "t", "--every", "5"), "every:"),
    ],
)
def test_a_wrong_view_is_refused_before_anything_is_sent(arguments: tuple[str, ...], reason: str) -> None:
    done = CliRunner().invoke(app, ["view", "add", *arguments, "--url", "mqtt://127.0.0.1:1"])
    assert done.exit_code == 2
    assert reason in done.stderr
