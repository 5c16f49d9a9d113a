"""Eight threads read a manifest at the same moment, in a process that has read none before: `python -m … MANIFEST KEY`."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from controller_core.adapters.snapshot.manifest import parse_manifest

THREADS = 8


def main(path: str, key: str) -> None:
    """Lets threads change as often as can be, so that what is not safe shows."""
    data, together = Path(path).read_bytes(), Barrier(THREADS)
    sys.setswitchinterval(1e-6)

    def read(_: int) -> None:
        together.wait()
        parse_manifest(data, key, path)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(read, range(THREADS)))


if __name__ == "__main__":
    main(*sys.argv[1:])
