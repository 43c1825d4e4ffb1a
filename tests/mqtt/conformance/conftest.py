"""Each statement is proved twice: with all that comes told as events, and by the front's short way."""

from __future__ import annotations

import pytest

from tests.mqtt.talk import Talk


@pytest.fixture(autouse=True, params=["told", "express"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Talk, "express", request.param == "express")
