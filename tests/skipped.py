"""What to install for tests that were skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

NEEDS = "needs "
"""How the reason of a test begins that is skipped because a program is missing."""

INSTALL = {
    "a C compiler": "apt install gcc",
    "a Chromium": "apt install chromium, or name one in TIDINGS_TEST_CHROMIUM",
    "go": "apt install golang; TIDINGS_TEST_GO_MODULE names a module with paho.golang",
    "java": "apt install default-jdk; TIDINGS_TEST_JAVA_CLASSPATH names the HiveMQ client",
    "libmosquitto": "apt install libmosquitto-dev",
    "mosquitto": "apt install mosquitto",
    "mosquitto's clients": "apt install mosquitto-clients",
    "node": "apt install nodejs; TIDINGS_TEST_NODE_PATH names a folder with the package mqtt",
}
"""What a reason names, and how to get it on Debian and Ubuntu."""


def needed(reason: str) -> str | None:
    """What a test needs that was skipped for this reason; None if no program would help."""
    if not reason.startswith(NEEDS):
        return None
    words = reason.removeprefix(NEEDS)
    return next(name for name in sorted(INSTALL, key=len, reverse=True) if words.startswith(name))


def to_install(reasons: Iterable[str]) -> list[str]:
    """A line for each program that is missing, with the number of tests that need it."""
    count = Counter(name for name in map(needed, reasons) if name is not None)
    return [f"{INSTALL[name]}  ({count[name]} skipped without {name})" for name in sorted(count)]
