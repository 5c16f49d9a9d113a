"""Every scenario on brokers of VERSIONS, under Kafka's own controller and under the core: `python -m tests.differential.scenario_table --versions "2.4 3.9"`.

Prints what differs, and keeps what each version came to in `scenarios/lived.json`, from which docs/fidelity.md has its table.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller_core.model.dialect import parse_version
from tests.differential.leaving import OLDEST
from tests.differential.live_scenarios import FILES, Ended, differences, run
from tests.differential.live_worlds import World, under_kafkas, under_the_core

LIVED = Path(__file__).parent / "scenarios" / "lived.json"
SAME, FAILED = "same", "failed"


def main() -> None:
    """Runs them; ends with an error where one failed or differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--versions", default="3.9 2.8 2.4", help="of brokers (default: %(default)s)")
    parser.add_argument("--scenarios", nargs="*", help="names of files (default: all)")
    arguments = parser.parse_args()
    files = [each for each in FILES if not arguments.scenarios or each.stem in arguments.scenarios]
    bad = 0
    for version in filter(is_run_by_the_laboratory, arguments.versions.split()):
        kafkas = _lived(under_kafkas, version, files, "Kafka's controller")
        ours = _lived(under_the_core, version, files, "the core")
        rows = {each.stem: _row(kafkas[each.stem], ours[each.stem]) for each in files}
        bad += sum(row["result"] != SAME for row in rows.values())
        print(f"{version}: {sum(row['result'] == SAME for row in rows.values())} of {len(rows)} alike", flush=True)
        kept = json.loads(LIVED.read_text(encoding="utf-8")) if LIVED.exists() else {}
        former = kept.get(version, {}).get("scenarios", {})
        kept[version] = {"date": f"{datetime.now(UTC):%Y-%m-%d}", "scenarios": {**former, **rows}}
        LIVED.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    sys.exit(f"{bad} scenarios differ or failed" if bad else None)


def is_run_by_the_laboratory(version: str) -> bool:
    """Older brokers are not."""
    return parse_version(version) >= OLDEST


def table() -> str:
    """The table of docs/fidelity.md, from what was kept."""
    kept = json.loads(LIVED.read_text(encoding="utf-8"))
    versions = sorted(kept, key=lambda version: tuple(map(int, version.split("."))))
    dated = [f"{version}, {kept[version]['date']}" for version in versions]
    lines = [
        f"| scenario | {' | '.join(dated)} |",
        f"| --- |{' --- |' * len(versions)}",
    ]
    for path in FILES:
        cells = [_cell(kept[version]["scenarios"].get(path.stem)) for version in versions]
        lines.append(f"| {path.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "not run"
    seconds = f"{row['seconds_kafka']:.0f} / {row['seconds_core']:.0f} s"
    cpu = f"; {row['cpu_ms_kafka']} / {row['cpu_ms_core']} ms" if "cpu_ms_core" in row else ""
    return (
        f"{row['result']}; {row['looks']} looks, {row['acknowledged']} messages, {row['missing']} lost; {seconds}{cpu}"
    )


def _row(kafkas: Ended | str, ours: Ended | str) -> dict[str, Any]:
    if isinstance(kafkas, str) or isinstance(ours, str):
        return {
            "result": FAILED, "looks": 0, "acknowledged": 0, "missing": 0, "seconds_kafka": 0, "seconds_core": 0,
            "cpu_ms_kafka": 0, "cpu_ms_core": 0,
        }  # fmt: skip
    found = differences(kafkas, ours)
    for line in found:
        print(f"  {line}", flush=True)
    return {
        "result": f"{len(found)} differences" if found else SAME,
        "looks": len(ours.looks),
        "acknowledged": kafkas.acknowledged + ours.acknowledged,
        "missing": kafkas.missing + ours.missing,
        "seconds_kafka": round(kafkas.seconds, 1),
        "seconds_core": round(ours.seconds, 1),
        "cpu_ms_kafka": round(kafkas.controller_cpu_s * 1000),
        "cpu_ms_core": round(ours.controller_cpu_s * 1000),
    }


def _lived(
    under: Callable[[str], AbstractContextManager[World]], version: str, files: Iterable[Path], whose: str
) -> dict[str, Ended | str]:
    """Name → what it came to, or what failed; after a failure the next begins on a new cluster."""
    ended: dict[str, Ended | str] = {}
    waiting = list(files)
    while waiting:
        with ExitStack() as stack:
            world = stack.enter_context(under(version))
            while waiting:
                path = waiting.pop(0)
                try:
                    ended[path.stem] = run(world, path)
                    print(f"{version}, {whose}: {path.stem} {ended[path.stem].seconds:.1f} s", flush=True)  # type: ignore[union-attr]
                except Exception as error:  # noqa: BLE001 - the others are still worth their run
                    ended[path.stem] = str(error)
                    print(f"{version}, {whose}: {path.stem} FAILED: {error!r}", flush=True)
                    break
    return ended


if __name__ == "__main__":
    main()
