"""`tidings session`: what a broker keeps for a client is removed, here or elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.live.local import run as run_story
from tests.live.local import until
from tests.live.mqtt import RawClient
from tidings.cli import app
from tidings.live.service import Service
from tidings.local import network
from tidings.mqtt.packets import Properties
from tidings.service.config import load
from tidings.service.values import address_text


def tidings(*words: str) -> Result:
    return CliRunner().invoke(app, ["session", "remove", *words])


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have a network running."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def at_a_broker(*commands: Callable[[str], Result]) -> list[Result]:
    """What commands say of a broker that keeps sessions for "away" and "there"; they get its HTTP address."""
    flags = {"listen": "127.0.0.1:0", "http": "127.0.0.1:0", "mqtt": "127.0.0.1:0", "anonymous": True}

    async def story() -> list[Result]:
        service = Service(load(None, {}, {"id": "b1", **flags}))
        await service.start()
        await until(lambda: not service.node.synchronising)
        place = service.node.mqtt_addresses["tcp"]
        kept = Properties(session_expiry_s=1000)
        away, _ = await RawClient.dial(place, "away", properties=kept)
        await away.close()
        await RawClient.dial(place, "there", properties=kept)
        assert service.pages is not None
        address = address_text(service.pages.address)
        said = [await asyncio.to_thread(command, address) for command in commands]
        await service.node.stop()
        await service.stopped()
        return said

    return run_story(story)


def test_sessions_are_removed_and_those_that_are_not_there_are_named() -> None:
    first, second = at_a_broker(
        lambda address: tidings("away", "there", "--at", address),
        lambda address: tidings("away", "--at", address),
    )
    assert first.exit_code == 0
    assert [line.partition(" at ")[0] for line in first.stdout.splitlines()] == [
        "removed the session of 'away'",
        "removed the session of 'there'",
    ]
    assert (second.exit_code, second.stdout) == (1, "")
    assert second.stderr == "no broker that answered has a session of 'away'\n"


def test_one_that_is_known_is_removed_beside_one_that_is_not() -> None:
    (told,) = at_a_broker(lambda address: tidings("nobody", "away", "--at", address))
    assert told.exit_code == 1
    assert "removed the session of 'away'" in told.stdout
    assert "'nobody'" in told.stderr


def test_a_broker_that_does_not_answer_or_is_none_fails_the_command(tmp_path: Path) -> None:
    nobody = f"127.0.0.1:{network.free_ports(1, 41_000)[0]}"
    told = tidings("c", "--at", nobody)
    assert (told.exit_code, told.stderr.splitlines()[0]) == (1, f"{nobody}: no answer: nobody listens there")
    assert tidings("c", "--at", "nowhere").exit_code == 2
    assert "name the HTTP address of a broker with --at" in str(tidings("c").exception)
    missing = tidings("c", "--at", nobody, "--token-file", str(tmp_path / "none"))
    assert "none cannot be read" in str(missing.exception)


def test_the_token_goes_with_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []

    def ask(*words: object) -> tuple[int, dict[str, object]]:
        asked.append(words)
        return 403, {"error": "only from this machine"}

    monkeypatch.setattr("tidings.cli.network.session.ask", ask)
    (tmp_path / "token").write_text("sesame\n", encoding="utf-8")
    told = tidings("c", "--at", "far.example:1", "--token-file", str(tmp_path / "token"))
    assert asked == [("far.example:1", "/sessions", {"remove": ["c"]}, "sesame")]
    assert told.exit_code == 1
    assert "far.example:1: only from this machine" in told.stderr
