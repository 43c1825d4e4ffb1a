"""What can be pasted at the end: to see, use and stop a network that is left up, or to look at a file."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path


def command() -> str:
    """How a shell finds the `tidings` that runs here: by its name if that finds it, else by its path.

    `make demo` calls it by its path, in an environment that the shell knows nothing of.
    """
    own = Path(sys.executable).with_name("tidings")
    found = shutil.which("tidings")
    if not own.exists() or (found is not None and Path(found).resolve() == own.resolve()):
        return "tidings"
    return shown(own)


def shown(path: Path) -> str:
    """A path as it can be pasted: from here, where that is shorter."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def lines(topic_filter: str, where: str) -> list[str]:
    """Three commands: how the network is, what is told in it, and its end."""
    tidings = command()
    return [
        f"{tidings} status",
        f"{tidings} sub {shlex.quote(topic_filter)} --where {shlex.quote(where)}",
        f"{tidings} down",
    ]
