"""The command `tidings`: one module per command.

A command reads what a person or a program gives it, calls the folders below, and shows the answer: a table
for people, JSON for programs. Exit codes are the same everywhere: 0 all is well (or the answer is yes), 1
part of the input was refused (or the answer is no), 2 the call itself is wrong. Only for `tidings gather`
what is refused is part of the answer.
"""

from __future__ import annotations

import sys

import typer

from tidings import __version__, installation
from tidings.cli import bench as bench_command
from tidings.cli import broker as broker_command
from tidings.cli import centre as centre_command
from tidings.cli import demo as demo_command
from tidings.cli import down as down_command
from tidings.cli import filter as filter_command
from tidings.cli import filter_dz as filter_dz_command
from tidings.cli import gather as gather_command
from tidings.cli import join as join_command
from tidings.cli import leave as leave_command
from tidings.cli import match as match_command
from tidings.cli import pipeline as pipeline_command
from tidings.cli import pipeline_gather as pipeline_gather_command
from tidings.cli import pipeline_match as pipeline_match_command
from tidings.cli import pipeline_traffic as pipeline_traffic_command
from tidings.cli import (
    plan_check,
    plan_communities,
    plan_schema,
    plan_stores,
    plan_try,
    workload_describe,
    workload_spec,
)
from tidings.cli import plan_show as plan_show_command
from tidings.cli import pub as pub_command
from tidings.cli import reproduce as reproduce_command
from tidings.cli import simulate as simulate_command
from tidings.cli import status as status_command
from tidings.cli import sub as sub_command
from tidings.cli import topic as topic_command
from tidings.cli import up as up_command
from tidings.cli import user as user_command
from tidings.cli import view as view_command
from tidings.cli import workload as workload_command
from tidings.errors import TidingsError

EPILOG = (
    "Words such as seat, told or cover are explained in docs/glossary.md; "
    "every command, with examples, in docs/cli.md."
)

app = typer.Typer(
    name="tidings",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up", epilog=EPILOG)(up_command.up)
app.command("pub", epilog=EPILOG)(pub_command.pub)
app.command("sub", epilog=EPILOG)(sub_command.sub)
app.command("status", epilog=EPILOG)(status_command.status)
app.command("join", epilog=EPILOG)(join_command.join)
app.command("leave", epilog=EPILOG)(leave_command.leave)
app.command("down", epilog=EPILOG)(down_command.down)
app.command("broker", epilog=EPILOG)(broker_command.broker)
app.command("demo", epilog=EPILOG)(demo_command.demo)
app.command("match", epilog=EPILOG)(match_command.match)
app.command("gather", epilog=EPILOG)(gather_command.gather)
app.command("bench", epilog=EPILOG)(bench_command.bench)
app.command("simulate", epilog=EPILOG)(simulate_command.simulate)
app.command("centre", epilog=EPILOG)(centre_command.centre)
app.command("center", epilog=EPILOG, hidden=True)(centre_command.centre)
app.command("reproduce", epilog=EPILOG)(reproduce_command.reproduce)
filters = typer.Typer(
    help="Filters: see how one is understood, compare two, see what part of the event space one asks for.",
    no_args_is_help=True,
)
filters.command("explain", epilog=EPILOG)(filter_command.explain)
filters.command("covers", epilog=EPILOG)(filter_command.covers)
filters.command("dz", epilog=EPILOG)(filter_dz_command.dz)
app.add_typer(filters, name="filter", epilog=EPILOG)
plans = typer.Typer(
    help="Plans: where stores go and which clients move, before anything is touched.", no_args_is_help=True
)
plans.command("stores", epilog=EPILOG)(plan_stores.stores)
plans.command("communities", epilog=EPILOG)(plan_communities.communities)
plans.command("show", epilog=EPILOG)(plan_show_command.show)
plans.command("check", epilog=EPILOG)(plan_check.check)
plans.command("try", epilog=EPILOG)(plan_try.try_)
plans.command("schema", epilog=EPILOG)(plan_schema.schema)
app.add_typer(plans, name="plan", epilog=EPILOG)
topics = typer.Typer(
    help="Topic declarations: check one, and see or change what the network has declared.",
    no_args_is_help=True,
)
topics.command("check", epilog=EPILOG)(topic_command.check)
topics.command("declare", epilog=EPILOG)(topic_command.declare)
topics.command("list", epilog=EPILOG)(topic_command.list_)
topics.command("show", epilog=EPILOG)(topic_command.show)
topics.command("remove", epilog=EPILOG)(topic_command.remove)
app.add_typer(topics, name="topic", epilog=EPILOG)
views = typer.Typer(
    help="Views: filters that the network keeps for clients that cannot send any.", no_args_is_help=True
)
views.command("add", epilog=EPILOG)(view_command.add)
views.command("list", epilog=EPILOG)(view_command.list_)
views.command("remove", epilog=EPILOG)(view_command.remove)
app.add_typer(views, name="view", epilog=EPILOG)

users = typer.Typer(help="Users of a broker, their passwords, and what they may do.", no_args_is_help=True)
users.command("add", epilog=EPILOG)(user_command.add)
users.command("remove", epilog=EPILOG)(user_command.remove)
users.command("list", epilog=EPILOG)(user_command.list_)
users.command("check", epilog=EPILOG)(user_command.check)
app.add_typer(users, name="user", epilog=EPILOG)

workloads = typer.Typer(
    help="Workloads of a wide-area network: make one with Spark, see what is in it.", no_args_is_help=True
)
workloads.command("generate", epilog=EPILOG)(workload_command.generate)
workloads.command("describe", epilog=EPILOG)(workload_describe.describe)
workloads.command("spec", epilog=EPILOG)(workload_spec.spec)
app.add_typer(workloads, name="workload", epilog=EPILOG)

pipelines = typer.Typer(
    help="The data pipeline on Spark: run its stages, see how they hang together, look at their tables.",
    no_args_is_help=True,
)
pipelines.command("run", epilog=EPILOG)(pipeline_command.run)
pipelines.command("graph", epilog=EPILOG)(pipeline_command.graph)
pipelines.command("show", epilog=EPILOG)(pipeline_command.show)
pipelines.command("gather", epilog=EPILOG)(pipeline_gather_command.gather)
pipelines.command("match", epilog=EPILOG)(pipeline_match_command.match)
pipelines.command("explain", epilog=EPILOG)(pipeline_match_command.explain)
pipelines.command("traffic", epilog=EPILOG)(pipeline_traffic_command.traffic)
app.add_typer(pipelines, name="pipeline", epilog=EPILOG)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidings-network {__version__}")
        raise typer.Exit


@app.callback()
def tidings(
    version: bool = typer.Option(
        False, "--version", help="Show the version and leave.", callback=_version, is_eager=True
    ),
) -> None:
    """Content-based publish/subscribe for events that people and machines report imperfectly.

    Try it:

        tidings filter explain "severity >= 3 AND road IN ('A1', 'A2')"
    """


def main() -> None:
    """What the installed command runs."""
    try:
        installation.check()
        app()
    except TidingsError as error:
        typer.echo(f"tidings: {error}", err=True)
        sys.exit(2)
