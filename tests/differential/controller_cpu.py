"""What a controller costs: CPU time of the one thread that takes its events, of Kafka's or of ours; its requests are sent by other threads, in both."""

import threading
from pathlib import Path

from kafka_maintenance.servers.kafka import KafkaBroker

_KAFKAS = "controller-even"  # `controller-event-thread`, as Linux cuts it
_OURS = "laboratory controller"
_NS = 1e9


def kafkas_cpu_s(broker: KafkaBroker) -> float:
    """CPU seconds of a broker's controller since it was started."""
    tasks = Path(f"/proc/{broker.pid}/task").iterdir()
    return sum(_cpu_s(each) for each in tasks if (each / "comm").read_text().startswith(_KAFKAS))


def our_cpu_s() -> float:
    """CPU seconds of the laboratory's controller in this process."""
    tasks = Path("/proc/self/task")
    return sum(_cpu_s(tasks / str(each.native_id)) for each in threading.enumerate() if each.name == _OURS)


def _cpu_s(task: Path) -> float:
    """Source: Linux, proc(5), `schedstat`: nanoseconds on a CPU come first."""
    return int((task / "schedstat").read_text().split()[0]) / _NS
