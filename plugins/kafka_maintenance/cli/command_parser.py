"""The parser of every command: help with examples and the meaning of each exit status, coloured on a terminal alone.

Source: docs/adr/0016-a-command-of-argparse-and-rich.md.
"""

import argparse
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

from rich_argparse import RawDescriptionRichHelpFormatter

from kafka_maintenance.cli.examples import EXAMPLES, FOUND, REFUSED
from kafka_maintenance.operations.errors import BadInputError

PROGRAM: Final = "kafka-maintenance"
_FROM_SNAPSHOT_TO_RECEIPT: Final = ("snapshot", "analyse", "status", "plan elections", "apply")


class _Formatter(RawDescriptionRichHelpFormatter):
    text_markup = False  # a bracket in a description is a bracket


class CommandParser(argparse.ArgumentParser):
    """An `ArgumentParser` whose help is formatted by rich; parsers of sub-commands are of its class, too."""

    def __init__(self, **options: Any) -> None:
        super().__init__(formatter_class=_Formatter, **options)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See `ArgumentParser`; the command that does not know an argument refuses it, and not the first command of all."""
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return parsed, unknown

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        """See `ArgumentParser`; an empty value is a variable of the shell that nobody set: it would be the folder at hand, or the user at hand."""
        if action.nargs != argparse.PARSER and not all(map(str.strip, arg_strings)):
            raise argparse.ArgumentError(action, "expected a value, found an empty one")
        return super()._get_values(action, arg_strings)

    def error(self, message: str) -> NoReturn:
        """Raises BadInputError: a wrong command line is shown as every other bad input, without the usage of all options above it."""
        raise BadInputError(f"{message}; `{self.prog} --help` has every argument, and examples")


def leaves(
    parser: argparse.ArgumentParser, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The commands that do something, each by its words: `snapshots list` and its parser."""
    children = _children(parser)
    for name, child in children.items():
        yield from leaves(child, (*path, name))
    if not children:
        yield " ".join(path), parser


def explain_commands(root: argparse.ArgumentParser) -> None:
    """Writes examples and exit statuses at the end of each command's help; of a group one example of each of its commands, of all the first ones."""
    root.epilog = f"{_examples(EXAMPLES[name][0] for name in _FROM_SNAPSHOT_TO_RECEIPT)}\n\n{root.epilog}"
    for name, parser in leaves(root):
        parser.epilog = f"{_examples(EXAMPLES.get(name, ()))}\n\n{_statuses(name)}"
    for group, parser in _children(root).items():
        if actions := _children(parser):
            parser.epilog = _examples([EXAMPLES[f"{group} {action}"][0] for action in actions])


def _children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The sub-commands of a parser by name."""
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001 - argparse names no other way
    return {name: child for action in actions for name, child in action.choices.items()}


def _examples(lines: Iterable[str]) -> str:
    return "Examples:\n" + "\n".join(f"  {PROGRAM} {each}" for each in lines)


def _statuses(command: str) -> str:
    meanings = {
        0: "done, also where there was nothing to do",
        1: REFUSED.get(command),
        2: "bad input",
        3: "the outside failed",
        4: FOUND.get(command),
    }
    return "Exit status:\n" + "\n".join(f"  {status}  {meaning}" for status, meaning in meanings.items() if meaning)
