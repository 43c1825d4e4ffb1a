"""A cluster on loopback: a standalone master and workers, from the PySpark that is installed."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

from tidings.pipeline.java import java_home

HOST = "127.0.0.1"

START_S_MAX = 120.0
"""A bound for a machine that hangs; a JVM is up within seconds."""


@contextmanager
def cluster(folder: Path, workers: int = 2, environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Start a master and workers of one core each, and end them; gives the master's address."""
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    variables = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        **(environ or {}),
    }
    variables.pop("SPARK_HOME", None)
    master = [str(program), "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0"]
    worker = [str(program), "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--cores", "1"]
    with ExitStack() as running:
        ready = r"Starting Spark master at (spark://\S+)"
        address = running.enter_context(daemon([*master, "--webui-port", "0"], variables, ready))
        for number in range(workers):
            place = ["--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"worker-{number}")]
            running.enter_context(daemon([*worker, *place, address], variables, r"(Successfully registered)"))
        yield address


@contextmanager
def daemon(command: list[str], environ: Mapping[str, str], ready: str) -> Iterator[str]:
    """Start a program, wait until it says that it is ready, and end it; gives what it said."""
    process = subprocess.Popen(
        command, env=dict(environ), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    lines, said, known = process.stderr, list[str](), Event()
    found: list[str] = []

    def listen() -> None:
        # To its end: a pipe that nobody empties stops the program.
        for line in lines:
            said.append(line)
            if not found and (match := re.search(ready, line)):
                found.append(match[1])
                known.set()
        known.set()

    listening = Thread(target=listen, daemon=True)
    listening.start()
    try:
        assert known.wait(START_S_MAX), f"{command} does not become ready: {''.join(said)}"
        assert found, f"{command} ended: {''.join(said)}"
        yield found[0]
    finally:
        process.terminate()
        try:
            process.wait(START_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        listening.join()
        lines.close()
