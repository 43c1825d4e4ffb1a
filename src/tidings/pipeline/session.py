"""The one place where a Spark session is made.

Every job of the pipeline is given a session, or DataFrames that have one; only the edges (commands, tests,
papers) make it, and they make it here. The same code runs on a laptop and on a cluster: the master is an
argument, and settings that only make sense on one machine are made only there.

Nothing is downloaded and nothing is left behind: the environment that Spark's launcher reads is changed while
it starts, and put back.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tidings.errors import SetupError
from tidings.pipeline.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK = "127.0.0.1"

# The same everywhere, because results depend on them or because they are a matter of taste.
ALWAYS = {
    # Our field names are case sensitive, in brokers and here.
    "spark.sql.caseSensitive": "true",
    # A timestamp means the same on every machine.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.adaptive.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}

# A JVM that starts fast and stays slow: one compiler tier, one collector thread. It saves about a sixth of a
# test run, and costs real jobs more than that.
QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def start(
    app: str = "tidings",
    *,
    master: str = "local[*]",
    settings: Mapping[str, str] | None = None,
    quick_start: bool = False,
) -> SparkSession:
    """Start Spark, or give back the session that this process already has.

    `settings` are Spark's own (`spark.…`) and win over ours. `quick_start` is for tests: it starts a JVM that
    is up sooner and runs slower. Raises `SetupError` when Spark or a Java for it is not installed.

    Inside `spark-submit` the JVM is already there, and with it its master, its Java and its memory; then
    `master` and what concerns the machine are left as they are.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise SetupError(
            f"the pipeline runs on Spark, and {error.name or 'pyspark'!r} is not installed: "
            f"pip install 'tidings-network[spark]'"
        ) from error
    builder = SparkSession.builder.appName(app)
    for name, value in ALWAYS.items():
        builder = builder.config(name, value)
    if submitted():
        for name, value in (settings or {}).items():
            builder = builder.config(name, value)
        return builder.getOrCreate()
    builder = builder.master(master)
    for name, value in {**machine_settings(master, quick_start), **(settings or {})}.items():
        builder = builder.config(name, value)
    with environment(launch_environment(master)):
        return builder.getOrCreate()


def submitted() -> bool:
    """Whether `spark-submit` started this program, and so the JVM before it."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str) -> bool:
    """Whether all of Spark runs in one process on this machine: "local", "local[4]", "local[*, 3]"."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def machine_settings(master: str, quick_start: bool = False) -> dict[str, str]:
    """What depends on where Spark runs."""
    options = [f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}"]
    if quick_start:
        options.append(QUICK_START)
    settings = {"spark.driver.extraJavaOptions": " ".join(options)}
    if is_local(master):
        settings |= {
            # Nobody else needs to reach us, and a laptop's own name often leads nowhere.
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.driver.memory": f"{driver_memory_mb(memory_mb())}m",
            # The default of 200 is for clusters: small data then spends its time on starting empty tasks.
            # Adaptive execution makes fewer of these where data is small; four for each core leave it room
            # where it is not.
            "spark.sql.shuffle.partitions": str(4 * core_count(master)),
        }
    return settings


def core_count(master: str) -> int:
    """How many tasks a local master runs at once."""
    match = re.fullmatch(r"local(?:\[\s*(\d+|\*)\s*(?:,.*)?\])?", master)
    assert match is not None, f"{master!r} is a local master"
    if match[1] is None:
        return 1
    return (os.cpu_count() or 1) if match[1] == "*" else int(match[1])


def driver_memory_mb(machine_mb: int) -> int:
    """Half of the machine: the Python workers live beside the JVM and need the other half.

    At least Spark's own default of 1 GB, at most 31 GB, above which the JVM's pointers grow to eight bytes.
    """
    return min(max(machine_mb // 2, 1024), 31 * 1024)


def memory_mb() -> int:
    """The memory of this machine, or of the container that we run in, whichever is less."""
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [physical]
    # The limit of a control group, version 2 and version 1; "max" or a number beyond all memory mean none.
    for file in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(file).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return min(limits) // 2**20


def launch_environment(master: str) -> dict[str, str]:
    """What Spark's launcher and its Python workers read from the environment."""
    # Workers must be this Python: the system's has another version, or no pyarrow. On a cluster the one who
    # set it up knows better.
    python = sys.executable if is_local(master) else os.environ.get("PYSPARK_PYTHON", sys.executable)
    variables = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local(master):
        # `spark.driver.host` is not enough: the launcher looks the machine's name up before it reads it.
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    return variables


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for a while."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
