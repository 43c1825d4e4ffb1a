"""A broker with all that belongs to it, its pages and its log too, in a process that can be killed.

`python -m tests.live.serving SETTINGS`, with settings as JSON, says when it is started.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tidings.live.service import run
from tidings.service.config import load


class ServedBroker:
    """One such process; it comes back at the same addresses, with the same folder."""

    def __init__(self, **settings: object) -> None:
        self.settings = settings
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> ServedBroker:
        """Returns when it has started; clients may have to try again until they are let in."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.live.serving", json.dumps(self.settings)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line == "started\n", f"broker {self.settings['id']} has not started"
        return self

    def stop(self) -> int:
        """SIGTERM; the exit code when it has written down all that it has to."""
        assert self._process is not None, "it runs"
        self._process.terminate()
        return self._process.wait()

    def kill(self) -> None:
        """As by kill -9: nothing more is written, sent or said."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None


if __name__ == "__main__":
    run([load(None, {}, json.loads(sys.argv[1]))], ready=lambda _: print("started", flush=True))
