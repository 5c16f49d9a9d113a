"""`kafka-maintenance completion`: what a shell needs to complete commands and options."""

import argparse
from typing import Any

from kafka_maintenance.cli.arguments import ExitStatus, add_json_argument, show
from kafka_maintenance.cli.command_parser import PROGRAM


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "completion",
        help="print the completion of this command for a shell",
        description="Prints a script for the shell that completes commands and options; docs/cli.md says where it goes.",
    )
    command.add_argument("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    add_json_argument(command)
    command.set_defaults(run=_print)


def _print(arguments: argparse.Namespace) -> ExitStatus:
    from argcomplete.shell_integration import shellcode

    script = shellcode([PROGRAM], shell=arguments.shell)
    show(arguments, script, {"shell": arguments.shell, "script": script})
    return ExitStatus.DONE
