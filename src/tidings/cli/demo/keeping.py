"""A network that is left up at the end: what can be pasted to see it, to use it, and to stop it."""

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
    here = Path.cwd()
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))


def lines(topic_filter: str, where: str) -> list[str]:
    """Three commands: how the network is, what is told in it, and its end."""
    tidings = command()
    return [
        f"{tidings} status",
        f"{tidings} sub {shlex.quote(topic_filter)} --where {shlex.quote(where)}",
        f"{tidings} down",
    ]
