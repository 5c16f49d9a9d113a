"""Which configs of a topic Kafka 3.9 knows, and which of their values it takes.

Source: Kafka 3.9 `LogConfig.configKeys`, `LogConfig.validateValues`, `ConfigDef.parseType`, `MetadataVersion.fromVersionString`; each rule was measured with
`LogConfig.validate`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

_INT: Final = 2**31 - 1
_LONG: Final = 2**63 - 1
_DIGITS: Final = re.compile(r"[+-]?0*\d{1,19}")
_FRACTION: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?", re.ASCII)
_RELEASE: Final = re.compile(r"(0\.8\.[0-2]|0\.9\.0|0\.10\.[0-2]|0\.11\.0|1\.[01]|2\.[0-8]|3\.\d|4\.0)(\.\d.*|-IV\d)?")
_REPLICAS: Final = re.compile(r"(\d+:\d+(\s*,\s*\d+:\d+)*,?)?|\*")
_LAGS: Final = ("min.compaction.lag.ms", "max.compaction.lag.ms")
_WHOLE: Final[Mapping[str, tuple[int, int]]] = {
    "compression.lz4.level": (1, 17),
    "compression.zstd.level": (-131072, 22),
    "delete.retention.ms": (0, _LONG),
    "file.delete.delay.ms": (0, _LONG),
    "flush.messages": (1, _LONG),
    "flush.ms": (0, _LONG),
    "index.interval.bytes": (0, _INT),
    "local.retention.bytes": (-2, _LONG),
    "local.retention.ms": (-2, _LONG),
    "max.compaction.lag.ms": (1, _LONG),
    "max.message.bytes": (0, _INT),
    "message.timestamp.after.max.ms": (0, _LONG),
    "message.timestamp.before.max.ms": (0, _LONG),
    "message.timestamp.difference.max.ms": (0, _LONG),
    "min.compaction.lag.ms": (0, _LONG),
    "min.insync.replicas": (1, _INT),
    "retention.bytes": (-(2**63), _LONG),
    "retention.ms": (-1, _LONG),
    "segment.bytes": (14, _INT),
    "segment.index.bytes": (4, _INT),
    "segment.jitter.ms": (0, _LONG),
    "segment.ms": (1, _LONG),
}
_BOOLEAN: Final = frozenset(
    [
        "message.downconversion.enable",
        "preallocate",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "unclean.leader.election.enable",
    ]
)
_ONE_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
}


def doubtful_settings(config: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Name of a setting, and why Kafka 3.9 does not take it of a topic."""
    for key, value in sorted(config.items()):
        if key not in _KNOWN:
            yield key, f"{key} is no config of a topic in Kafka 3.9"
        elif reason := _reason(key, value.strip()):
            yield key, f"{key}={value!r} {reason}"
    least, most = (config.get(name, "").strip() for name in _LAGS)
    if _is_whole(least) and _is_whole(most) and int(least) > int(most):
        yield _LAGS[0], f"{_LAGS[0]}={least!r} is more than {_LAGS[1]}={most!r}"


def _reason(key: str, value: str) -> str | None:
    if key in _WHOLE:
        return _reason_of_whole(value, *_WHOLE[key])
    if key in _BOOLEAN:
        return None if value.lower() in {"true", "false"} else "is neither true nor false"
    if key in _ONE_OF:
        return None if value in _ONE_OF[key] else f"is none of {', '.join(_ONE_OF[key])}"
    takes, wanted = _OTHER[key]
    return None if takes(value) else wanted


def _reason_of_whole(value: str, least: int, most: int) -> str | None:
    if not _is_whole(value):
        return "is no whole number"
    return None if least <= int(value) <= most else f"is not between {least} and {most}"


def _is_whole(value: str) -> bool:
    return bool(_DIGITS.fullmatch(value))


def _is_gzip_level(value: str) -> bool:
    return _is_whole(value) and (int(value) == -1 or 1 <= int(value) <= 9)  # noqa: PLR2004 - the levels of gzip


def _is_ratio(value: str) -> bool:
    return value == "NaN" or (bool(_FRACTION.fullmatch(value)) and 0 <= float(value.rstrip("dDfF")) <= 1)


def _are_policies(value: str) -> bool:
    return not value or {each.strip() for each in value.split(",")} <= {"compact", "delete"}


_replicas: Final = (lambda value: bool(_REPLICAS.fullmatch(value)), "is neither * nor a list of PARTITION:BROKER")
_OTHER: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "cleanup.policy": (_are_policies, "is neither compact nor delete, nor both"),
    "compression.gzip.level": (_is_gzip_level, "is neither -1 nor between 1 and 9"),
    "follower.replication.throttled.replicas": _replicas,
    "leader.replication.throttled.replicas": _replicas,
    "message.format.version": (lambda value: bool(_RELEASE.fullmatch(value)), "is no version of Kafka"),
    "min.cleanable.dirty.ratio": (_is_ratio, "is no number between 0 and 1"),
}
_KNOWN: Final = _WHOLE.keys() | _BOOLEAN | _ONE_OF.keys() | _OTHER.keys()
