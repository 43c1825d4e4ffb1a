"""Spark on loopback, from the installed PySpark: a standalone cluster, and a server of Connect."""

from __future__ import annotations

import os
import re
import subprocess
import sys
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
    program = spark_program("spark-class")
    variables = {**spark_environment(environ), "SPARK_DAEMON_MEMORY": "256m"}
    master = [program, "org.apache.spark.deploy.master.Master", "--host", HOST, "--port", "0"]
    worker = [program, "org.apache.spark.deploy.worker.Worker", "--host", HOST, "--cores", "1"]
    with ExitStack() as running:
        ready = r"Starting Spark master at (spark://\S+)"
        address = running.enter_context(daemon([*master, "--webui-port", "0"], variables, ready))
        for number in range(workers):
            place = ["--memory", "1g", "--webui-port", "0", "--work-dir", str(folder / f"worker-{number}")]
            running.enter_context(daemon([*worker, *place, address], variables, r"(Successfully registered)"))
        yield address


@contextmanager
def connect_server(environ: Mapping[str, str] | None = None) -> Iterator[str]:
    """Start a server of Spark Connect, and end it; gives its address."""
    command = [spark_program("spark-submit"), "--master", "local[2]", "--driver-memory", "1g"]
    for setting in ("spark.connect.grpc.binding.port=0", "spark.log.level=INFO", "spark.ui.enabled=false"):
        command += ["--conf", setting]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    variables = {**spark_environment(environ), "PYSPARK_PYTHON": sys.executable}
    with daemon(command, variables, r"Spark Connect server started at: \S*:(\d+)") as port:
        yield f"sc://{HOST}:{port}"


def spark_program(name: str) -> str:
    """A program of the installed PySpark."""
    import pyspark

    return str(Path(pyspark.__file__).parent / "bin" / name)


def spark_environment(environ: Mapping[str, str] | None) -> dict[str, str]:
    """What Spark's own programs need to know."""
    variables = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_LOCAL_IP": HOST,
        **(environ or {}),
    }
    variables.pop("SPARK_HOME", None)
    return variables


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
