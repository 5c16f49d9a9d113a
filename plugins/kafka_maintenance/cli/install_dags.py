"""`kafka-maintenance install-dags`: the DAG files of an installed wheel, as stubs in the folder where Airflow looks for DAGs."""

import argparse
import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from controller_core.adapters.local_file import write_whole
from kafka_maintenance import __version__
from kafka_maintenance.cli.arguments import ExitStatus, add_dry_run_argument, add_json_argument, show
from kafka_maintenance.cli.named_files import writing
from kafka_maintenance.operations.errors import BadInputError

PACKAGE: Final = "kafka_maintenance.dags"
MARK: Final = "written by `kafka-maintenance install-dags`"

_FIRST_LINE: Final = re.compile(r'"""The DAG (?P<module>\w+) of kafka-maintenance (?P<version>[^\s;]+); ')


def add_parsers(commands: Any) -> None:
    """Adds the sub-command."""
    command = commands.add_parser(
        "install-dags",
        help="write the DAG files of this version into Airflow's DAG folder",
        description="Writes one stub of a few lines for each DAG of the installed version. Run it again after each upgrade: stubs of "
        "DAGs that this version no longer has are removed, other files, and stubs that somebody edited, are left alone.",
    )
    command.add_argument("folder", metavar="FOLDER", type=Path, help="Airflow's DAG folder, or one below it")
    add_dry_run_argument(command)
    add_json_argument(command)
    command.set_defaults(run=_install)


def _install(arguments: argparse.Namespace) -> int:
    written, removed = install(arguments.folder, dry_run=arguments.dry_run)
    document = {"folder": str(arguments.folder), "version": __version__, "written": written, "removed": removed}
    lines = [
        f"{arguments.folder}: DAG files of kafka-maintenance {__version__}{', dry run, nothing was changed' if arguments.dry_run else ''}",
        *(f"  wrote    {name}" for name in written),
    ]
    show(arguments, "\n".join([*lines, *(f"  removed  {name}" for name in removed)]), document)
    return ExitStatus.DONE


def install(folder: Path, *, dry_run: bool = False) -> tuple[list[str], list[str]]:
    """Writes the stubs; names of the files that were written, and of the stubs of former versions that were removed; in a dry run neither is done.

    Raises:
        BadInputError: no wheel is installed, `folder` is no folder, or a file of somebody else, or a stub that somebody edited, has the name of a stub; nothing is written then.
            Or a file cannot be written: those before it are, and running again writes all.
    """
    wanted = {f"kafka_maintenance_{name}.py": _stub(name) for name in _dag_modules()}
    with writing(folder):
        there = folder.is_dir()  # a name that is too long raises
    if not there:
        raise BadInputError(
            f"DAG files not written: expected a folder, found none at {folder}; create it or name another"
        )
    foreign = [name for name in wanted if os.path.lexists(folder / name) and not _is_stub(folder / name)]
    if foreign:
        raise BadInputError(
            f"DAG files not written: {folder} holds {', '.join(sorted(foreign))}, which this command did not write, or which somebody "
            "edited since; move them away"
        )
    former = [
        path for path in sorted(folder.glob("kafka_maintenance_*.py")) if path.name not in wanted and _is_stub(path)
    ]
    if not dry_run:
        for name, text in wanted.items():
            with writing(folder / name):
                write_whole(folder / name, text.encode())
        for path in former:
            with writing(path):
                path.unlink()
    return sorted(wanted), [path.name for path in former]


def _dag_modules() -> list[str]:
    spec = find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    names = sorted(path.stem for place in places for path in Path(place).glob("*.py") if not path.stem.startswith("_"))
    if not names:
        raise BadInputError(
            "DAG files not written: this kafka-maintenance runs from a checkout; its DAG files are in dags/, or install the wheel of `make dist`"
        )
    return names


def _stub(module: str, version: str = __version__) -> str:
    return (
        f'"""The DAG {module} of kafka-maintenance {version}; {MARK}: run that again after an upgrade."""\n\n'
        f"import {PACKAGE}.{module}  # noqa: F401 - its import makes the DAG, and Airflow takes it from here\n"
    )


def _is_stub(path: Path) -> bool:
    """Whether it is what this command wrote, in whatever version: nothing that somebody added to it, or wrote about it, is lost."""
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    named = _FIRST_LINE.match(text)
    return named is not None and text == _stub(named["module"], named["version"])
