"""What brokers answer where a snapshot cannot tell: their software, settings and log directories, with the time of the answer.

Settings are read by name, never passwords: of those only whether one is set. Nothing is changed.
Source: Kafka protocol guide, ApiVersions, DescribeConfigs, DescribeLogDirs; Kafka 3.9 `KafkaServer`, `KafkaConfig`; kafka-python `KafkaAdminClient`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

from kafka_maintenance.operations.cluster.brokers_asked import ANSWER_TIMEOUT_S, BrokersAsked, admin_client, said
from kafka_maintenance.operations.errors import OperationError
from kafka_maintenance.operations.kraft.certificate import Certificate
from spark_jobs.kraft.judged import Judged, Verdict
from spark_jobs.kraft.tree import Tree

IBP: Final = "inter.broker.protocol.version"
SETTINGS: Final = (
    IBP, "broker.id", "authorizer.class.name", "control.plane.listener.name", "inter.broker.listener.name",
    "security.inter.broker.protocol", "zookeeper.set.acl", "password.encoder.secret", "delegation.token.secret.key",
    "delegation.token.master.key",
)  # fmt: skip
_STATIC: Final = "STATIC_BROKER_CONFIG"
_DEFAULT: Final = "DEFAULT_CONFIG"
_MIGRATES_FROM: Final = (3, 4)
_ADVISED_FROM: Final = (3, 6)
_JBOD_FROM: Final = ((3, 7), 2)
_LAST: Final = 99


class NoBrokerAnsweredError(OperationError):
    """None of the named brokers answered."""


class Answer(NamedTuple):
    """What one broker says.

    Attributes:
        version: Kafka's minor version, as the versions of its APIs tell; nothing tells the patch level.
        settings: name → value; None: not set, or a password.
        sources: name → where its value comes from, as DescribeConfigs names it.
        log_dirs: path → error code; 0: healthy.
    """

    version: tuple[int, ...]
    settings: Mapping[str, str | None]
    sources: Mapping[str, str]
    log_dirs: Mapping[str, int]

    def has(self, name: str) -> bool:
        """Whether it is set, a password included."""
        return self.sources.get(name, _DEFAULT) != _DEFAULT


@dataclass(frozen=True, slots=True)
class Answers:
    """Broker → its answer, and broker → why there is none; asked at `at`."""

    at: datetime
    brokers: Mapping[int, Answer]
    silent: Mapping[int, str]

    def setting(self, name: str) -> Mapping[int, str]:
        """Broker → value, empty where there is none."""
        return {broker: answer.settings.get(name) or "" for broker, answer in self.brokers.items()}


def ask_brokers(brokers: BrokersAsked, at: datetime, timeout_s: float = ANSWER_TIMEOUT_S) -> Answers:
    """Asks every broker of the cluster; one that does not answer, or not everything, is silent.

    Raises:
        NoBrokerAnsweredError: there is none to begin with.
        BadInputError: an argument that the client does not have.
    """
    from kafka.errors import KafkaError  # noqa: PLC0415 - only who asks brokers loads their client

    found: dict[int, Answer] = {}
    silent: dict[int, str] = {}
    asked = f"readiness for KRaft asked of the brokers at {brokers.bootstrap_servers}"
    with admin_client(asked, brokers, timeout_s, NoBrokerAnsweredError) as admin:
        for broker in sorted(each.node_id for each in admin._manager.cluster.brokers()):  # noqa: SLF001 - `describe_cluster` would ask any broker
            try:
                found[broker] = _answer(admin, broker)
            except (KafkaError, OSError, LookupError) as error:
                silent[broker] = said(error)
    return Answers(at, found, silent)


def _answer(admin: Any, broker: int) -> Answer:
    from kafka.admin import ConfigResource, ConfigResourceType  # noqa: PLC0415 - as above
    from kafka.errors import ClusterAuthorizationFailedError  # noqa: PLC0415 - as above

    wanted = ConfigResource(ConfigResourceType.BROKER, str(broker), list(SETTINGS))
    configs = admin.describe_configs([wanted], config_filter="all")["broker"][str(broker)]
    (log_dirs,) = admin.describe_log_dirs(brokers=[broker])
    for what, told in (("settings", configs), ("log directories", log_dirs["log_dirs"])):
        if not told:  # the client does not tell a refusal from an empty list
            raise ClusterAuthorizationFailedError(
                f"{what} expected, none found; allow this user to describe the cluster and its configs"
            )
    return Answer(
        version=tuple(admin.get_broker_version_data(broker).broker_version[:2]),
        settings={name: None if each["is_sensitive"] else each["value"] for name, each in configs.items()},
        sources={name: each["config_source"] for name, each in configs.items()},
        log_dirs={each["log_dir"]: each["error_code"] for each in log_dirs["log_dirs"]},
    )


def with_answers(certificate: Certificate, tree: Tree, answers: Answers) -> Certificate:
    """The certificate with what the brokers say. A rule is met by answers only if every registered broker gave one.

    Args:
        certificate: of the tree.
        tree: of the snapshot.
        answers: of its brokers.
    """
    missing = dict.fromkeys(tree.registered - answers.brokers.keys(), "not among the brokers that were found")
    silent = missing | dict(answers.silent)
    when = f"(brokers, {answers.at:%Y-%m-%d %H:%M} UTC)"
    judged = dict(certificate.judged)
    for rule, judge in _RULES.items():
        before = judged[rule]
        if before.verdict in {Verdict.NOT_MET, Verdict.MET}:
            continue  # the snapshot decides
        found = judge(answers, before) if answers.brokers else before
        if found.verdict is Verdict.MET and silent:
            found = Judged(Verdict.ASK, (*found.evidence, *before.evidence))
        evidence = tuple(each if each in before.evidence else f"{each} {when}" for each in found.evidence)
        unheard = tuple(f"broker {broker} did not answer: {why} {when}" for broker, why in sorted(silent.items()))
        judged[rule] = Judged(found.verdict, (*evidence, *unheard))
    return replace(certificate, judged=judged, asked_at=answers.at)


def _software(answers: Answers, before: Judged) -> Judged:
    shown = {broker: ".".join(map(str, answer.version)) for broker, answer in answers.brokers.items()}
    versions = {answer.version for answer in answers.brokers.values()}
    text = f"brokers answer as Kafka {_values(shown)}"
    if len(versions) > 1 or min(versions) < _ADVISED_FROM:
        return Judged(Verdict.NOT_MET, (f"{text}: one version everywhere, 3.6.2 or 3.7.1 at least",))
    return Judged(Verdict.ASK, (f"{text}; the patch level is unknown", *before.evidence))


def _protocol_version(answers: Answers, before: Judged) -> Judged:
    found = answers.setting(IBP)
    text = f"{IBP} is {_values(found)}"
    if len(set(found.values())) > 1:
        return Judged(Verdict.NOT_MET, (f"{text}: one everywhere",))
    version, _ = _ibp(next(iter(found.values())))
    if version < _MIGRATES_FROM:
        return Judged(Verdict.NOT_MET, (f"{text}: 3.4 at least",))
    if version < _ADVISED_FROM:
        return Judged(Verdict.DECIDE, (f"{text}: a quorum of 3.8.1 or newer takes 3.6 at least",))
    del before
    return Judged(Verdict.ASK, (f"{text}: format the quorum with --release-version of it",))


def _passwords(answers: Answers, before: Judged) -> Judged:
    return Judged(
        before.verdict,
        (*before.evidence, f"password.encoder.secret is set on brokers {_who(answers, 'password.encoder.secret')}"),
    )


def _authorizer(answers: Answers, before: Judged) -> Judged:
    found = answers.setting("authorizer.class.name")
    text = f"authorizer.class.name is {_values(found)}"
    if before.verdict is Verdict.ASK and not any(found.values()):
        return Judged(Verdict.MET, (text,))
    return Judged(Verdict.DECIDE, (*(() if before.verdict is Verdict.ASK else before.evidence), text))


def _tokens(answers: Answers, before: Judged) -> Judged:
    names = ("delegation.token.secret.key", "delegation.token.master.key")
    return Judged(before.verdict, (*before.evidence, f"{names[0]} is set on brokers {_who(answers, *names)}"))


def _broker_ids(answers: Answers, before: Judged) -> Judged:
    del before
    generated = sorted(
        broker for broker, answer in answers.brokers.items() if answer.sources.get("broker.id") != _STATIC
    )
    if generated:
        return Judged(Verdict.NOT_MET, (f"broker.id is not set on brokers {generated}",))
    return Judged(Verdict.MET, ("broker.id is set on every broker",))


def _log_dirs(answers: Answers, before: Judged) -> Judged:
    del before
    failed = [
        f"broker {broker}: {path} has failed, error code {code}"
        for broker, answer in sorted(answers.brokers.items())
        for path, code in sorted(answer.log_dirs.items())
        if code
    ]
    if failed:
        return Judged(Verdict.NOT_MET, tuple(failed))
    several = sorted(broker for broker, answer in answers.brokers.items() if len(answer.log_dirs) > 1)
    old = {
        broker: value
        for broker, value in answers.setting(IBP).items()
        if broker in several and _ibp(value) < _JBOD_FROM
    }
    if old:
        return Judged(
            Verdict.NOT_MET,
            (f"brokers {sorted(old)} have several log directories, and {IBP} is {_values(old)}: 3.7-IV2 at least",),
        )
    return Judged(
        Verdict.MET,
        (f"brokers {several} have several log directories" if several else "every broker has one log directory",),
    )


def _listener(answers: Answers, before: Judged) -> Judged:
    if before.verdict is not Verdict.ASK:
        return before
    protocols = answers.setting("security.inter.broker.protocol")
    found = {
        broker: name or protocols[broker] for broker, name in answers.setting("inter.broker.listener.name").items()
    }
    text = f"brokers speak to each other at {_values(found)}"
    if len(set(found.values())) > 1:
        return Judged(Verdict.DECIDE, (f"{text}: the quorum names one for all",))
    return Judged(
        Verdict.ASK, (f"{text}: controller.properties: inter.broker.listener.name={next(iter(found.values()))}",)
    )


def _control_plane(answers: Answers, before: Judged) -> Judged:
    found = {broker: name for broker, name in answers.setting("control.plane.listener.name").items() if name}
    if found:
        evidence = () if before.verdict is Verdict.ASK else before.evidence
        return Judged(Verdict.DECIDE, (*evidence, f"control.plane.listener.name is {_values(found)}"))
    return (
        Judged(Verdict.MET, ("control.plane.listener.name is set nowhere",))
        if before.verdict is Verdict.ASK
        else before
    )


def _identity(answers: Answers, before: Judged) -> Judged:
    return Judged(
        before.verdict, (*before.evidence, f"zookeeper.set.acl is {_values(answers.setting('zookeeper.set.acl'))}")
    )


_RULES: Final[Mapping[str, Callable[[Answers, Judged], Judged]]] = {
    "R1": _software,
    "R2": _protocol_version,
    "R13": _passwords,
    "R15": _authorizer,
    "R16": _tokens,
    "R19": _broker_ids,
    "R20": _log_dirs,
    "R21": _listener,
    "R22": _control_plane,
    "R23": _identity,
}
"""Rule → how answers change its verdict. What the planned quorum will say, no broker can answer."""


def _values(found: Mapping[int, str]) -> str:
    """One value where all have it, else broker by broker."""
    if len(set(found.values())) == 1:
        return next(iter(found.values())) or "not set"
    return ", ".join(f"{value or 'not set'} on {broker}" for broker, value in sorted(found.items()))


def _who(answers: Answers, *names: str) -> str:
    found = sorted(broker for broker, answer in answers.brokers.items() if any(answer.has(name) for name in names))
    return str(found) if found else "none"


def _ibp(value: str) -> tuple[tuple[int, int], int]:
    """`3.7-IV2` as ((3, 7), 2), `3.7` as its last; one that cannot be read comes before all others."""
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)*(?:-IV(\d+))?", value)
    return ((0, 0), 0) if match is None else ((int(match[1]), int(match[2])), int(match[3] or _LAST))
