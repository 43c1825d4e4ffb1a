"""A Chromium without a window, spoken to over a pipe: no driver, no port, no package.

`python -m tests.console.browser PAGE FOLDER` takes pictures of a page, section by section, light and dark,
on a phone and on a wide screen.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
"""As the system's own Chromium needs them where there is neither a screen nor a network."""


def find() -> str | None:
    """A Chromium on this machine, if there is one."""
    return os.environ.get("TIDINGS_TEST_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Tab:
    """A page in a browser, and what it complained about."""

    def __init__(self, program: str, folder: Path) -> None:
        read_ours, write_theirs = os.pipe()
        read_theirs, write_ours = os.pipe()
        # The browser reads from 3 and writes to 4.
        redirected = f'exec "$@" 3</dev/fd/{read_theirs} 4>/dev/fd/{write_theirs}'
        self.process = subprocess.Popen(
            ["sh", "-c", redirected, "sh", program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(read_theirs, write_theirs),
            env=os.environ | {"HOME": str(folder)},
        )
        os.close(read_theirs)
        os.close(write_theirs)
        self.input = os.fdopen(read_ours, "rb")
        self.output = os.fdopen(write_ours, "wb", buffering=0)
        self.asked = 0
        self.session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.events: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait()
        self.input.close()
        self.output.close()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command, and hear everything until its answer."""
        self.asked += 1
        message = {"id": self.asked, "method": method, "params": params}
        if self.session is not None:
            message["sessionId"] = self.session
        self.output.write(json.dumps(message).encode() + b"\0")
        while True:
            heard = self.hear()
            if heard.get("id") == self.asked:
                assert "error" not in heard, heard
                result: dict[str, Any] = heard["result"]
                return result

    def hear(self) -> dict[str, Any]:
        text = bytearray()
        while (byte := self.input.read(1)) != b"\0":
            assert byte, "the browser is gone"
            text += byte
        heard: dict[str, Any] = json.loads(text)
        params = heard.get("params", {})
        match heard.get("method"):
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"{params['type']}: {params['args']}")
            case "Runtime.exceptionThrown":
                self.complaints.append(str(params["exceptionDetails"]))
            case "Log.entryAdded":
                self.complaints.append(str(params["entry"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case str():
                self.events.append(heard)
        return heard

    def screen(self, width: int, height: int, *, dark: bool, scale: float = 1) -> None:
        """Look through a screen of so many pixels, for eyes that like it light or dark."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 500,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        """Open a file, and wait until all of it is there."""
        self.events.clear()
        self.ask("Page.navigate", url=page.resolve().as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.hear()

    def value(self, expression: str) -> Any:
        """What a script finds; promises are waited for."""
        found = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def picture(self, selector: str) -> bytes:
        """A PNG of a part of the page."""
        box = self.value(
            f"(() => {{ const r = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return {x: r.x + scrollX, y: r.y + scrollY, width: r.width, height: r.height}; })()"
        )
        taken = self.ask("Page.captureScreenshot", captureBeyondViewport=True, clip=box | {"scale": 1})
        return base64.b64decode(taken["data"])


@contextmanager
def tab(program: str) -> Iterator[Tab]:
    """A new browser with an empty profile."""
    with (
        tempfile.TemporaryDirectory(prefix="tidings-chromium-", ignore_cleanup_errors=True) as folder,
        Tab(program, Path(folder)) as opened,
    ):
        yield opened


def main(page: Path, folder: Path) -> None:
    program = find()
    assert program is not None, "no Chromium on the PATH"
    folder.mkdir(parents=True, exist_ok=True)
    with tab(program) as browser:
        for width in (360, 1280):
            for dark in (False, True):
                browser.screen(width, 900, dark=dark, scale=2 if width < 500 else 1)
                browser.open(page)
                sections = browser.value("[...document.querySelectorAll('section')].map(s => s.id)")
                parts = {"whole": "body", "top": "header", "figures": ".figures"}
                for name, selector in (parts | {name: f"#{name}" for name in sections}).items():
                    file = folder / f"{width}-{'dark' if dark else 'light'}-{name}.png"
                    file.write_bytes(browser.picture(selector))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
