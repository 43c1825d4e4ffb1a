"""Run commands as if no extra were installed: each call from standard input, its outcome on standard output.

A process of its own, because what a test run has imported cannot be hidden any more. One for all calls,
because its start is most of the cost.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
import traceback
from importlib.machinery import ModuleSpec
from typing import Any

from tidings.installation import EXTRAS


class Hiding:
    """A finder of modules that does not find the packages of extras."""

    def __init__(self, finder: Any) -> None:
        self._finder = finder

    def find_spec(self, name: str, *rest: Any) -> ModuleSpec | None:
        if name.partition(".")[0] in EXTRAS:
            return None
        found: ModuleSpec | None = self._finder.find_spec(name, *rest)
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._finder, name)


def hide() -> None:
    """From here on no package of an extra can be found."""
    assert not set(EXTRAS) & set(sys.modules)
    sys.meta_path[:] = [Hiding(finder) for finder in sys.meta_path]


def called(arguments: list[str]) -> dict[str, object]:
    """What a user sees of one call: its exit code (None for a traceback) and what it prints."""
    from tidings.cli import main

    sys.argv = ["tidings", *arguments]
    code: object = 0
    out, err = io.TextIOWrapper(io.BytesIO()), io.TextIOWrapper(io.BytesIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code or 0
        except BaseException:  # noqa: BLE001  a test shows it
            code = None
            traceback.print_exc()
    return {"code": code, "out": _text(out), "err": _text(err)}


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


if __name__ == "__main__":
    hide()
    calls, sys.stdin = json.load(sys.stdin), io.StringIO("what commands read\n")
    print(json.dumps([called(one) for one in calls]))
