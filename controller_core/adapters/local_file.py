"""Files of this machine that are given to somebody else: a report, an export, an object that was fetched."""

import secrets
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """A local file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)
