"""`tidings user`: who may connect to a broker with a password, and what they may do."""

from __future__ import annotations

import getpass
import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidings.errors import InputError

VARIABLE = "TIDINGS_USERS_FILE"
RULES_VARIABLE = "TIDINGS_ACCESS_FILE"

NOTE = "brokers that run take note of it at SIGHUP: kill -HUP PID; `tidings status` shows the pids"

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]
File = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help=f"The broker's users_file; {VARIABLE} by default."),
]


def add(
    name: Name,
    file: File = None,
    password_stdin: Annotated[
        bool, typer.Option("--password-stdin", help="Read the password from standard input, one line.")
    ] = False,
) -> None:
    """Add a user, or give one another password; the file is made if need be.

    The password is asked for twice and not shown, or read from standard input; it is never on the command
    line, where others could see it. Brokers read the file when they start and at SIGHUP.

    Try it:

        tidings user add ann --file users
    """
    from tidings.service.users import add_user, name_fault

    path = _file(file)
    if fault := name_fault(name):
        raise InputError(fault)
    password = _of_stdin() if password_stdin else _asked(name)
    new = add_user(path, name, password.encode())
    typer.echo(f"{name} {'is a user now' if new else 'has another password now'}, in {path}")
    typer.echo(NOTE, err=True)


def remove(name: Name, file: File = None) -> None:
    """Remove a user. Once brokers have read the file (SIGHUP), clients of that name are disconnected, and
    refused.

    Try it:

        tidings user remove ann --file users
    """
    from tidings.service.users import remove_user

    path = _file(file)
    remove_user(path, name)
    typer.echo(f"{name} is no user any more, in {path}")
    typer.echo(NOTE, err=True)


def list_(
    file: File = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list of names.")] = False,
) -> None:
    """List the users of a file, by name.

    Try it:

        tidings user list --file users
    """
    from tidings.service.users import read_users

    names = sorted(read_users(_file(file)).hashes)
    if as_json:
        typer.echo(json.dumps(names, ensure_ascii=False))
    else:
        for name in names:
            typer.echo(name)


def check(
    name: Annotated[str, typer.Argument(metavar="NAME", help='The user\'s name; "" for the anonymous.')],
    action: Annotated[str, typer.Argument(metavar="ACTION", help="publish, subscribe or declare.")],
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A topic, or a topic filter to subscribe to.")
    ],
    access: Annotated[
        Path | None,
        typer.Option(
            "--access", metavar="FILE", help=f"The broker's access_file; {RULES_VARIABLE} by default."
        ),
    ] = None,
    client: Annotated[
        str, typer.Option("--client", metavar="ID", help="The client id, for rules with %c.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="The answer as one JSON object.")] = False,
) -> None:
    """Say whether a user may publish, subscribe or declare, and which rule decides.

    The exit code is 0 for yes and 1 for no.

    Try it:

        tidings user check ann publish traffic/athens/ann --access access.toml
    """
    from tidings.language.names import filter_fault, name_fault
    from tidings.mqtt.access import ACTIONS, deciding
    from tidings.mqtt.events import Access
    from tidings.service.access import read_rules, write_rule

    if action not in ACTIONS:
        raise typer.BadParameter(f"{action!r} is no action; it is one of {', '.join(ACTIONS)}")
    if fault := (name_fault if action == "publish" else filter_fault)(topic):
        raise typer.BadParameter(fault)
    path = access or _variable(RULES_VARIABLE, "--access")
    rules = read_rules(path)
    rule = deciding(Access(rules), name, client, action, topic)
    allowed = rule is not None and rule.allow
    number = None if rule is None else next(at for at, one in enumerate(rules, 1) if one is rule)
    decided = "no rule says that" if rule is None else f"rule {number} of {path}: {write_rule(rule)}"
    if as_json:
        typer.echo(json.dumps({"allowed": allowed, "rule": number, "why": decided}, ensure_ascii=False))
    else:
        typer.echo(f"{'yes' if allowed else 'no'}: {decided}")
    raise typer.Exit(0 if allowed else 1)


def _file(file: Path | None) -> Path:
    return file or _variable(VARIABLE, "--file")


def _variable(name: str, option: str) -> Path:
    if not os.environ.get(name):
        raise InputError(f"no file is named; say {option} FILE, or set {name}")
    return Path(os.environ[name])


def _of_stdin() -> str:
    password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise InputError("there is no password on standard input")
    return password


def _asked(name: str) -> str:
    if not sys.stdin.isatty():
        raise InputError("there is no terminal to ask for the password; pipe it in, with --password-stdin")
    password = getpass.getpass(f"password of {name}: ")
    if getpass.getpass("once more: ") != password:
        raise InputError("the two are not the same; nothing was changed")
    return password
