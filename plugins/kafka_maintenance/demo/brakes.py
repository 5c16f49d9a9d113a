"""The demo's move under a throttle: stopped in mid-wave, gone on with, and its second wave cancelled where the version can."""

from controller_core.model.words import counted
from kafka_maintenance.demo.progress import Progress
from kafka_maintenance.demo.throttled_move import CANCEL_DAG, STOP_DAG, THROTTLE_BYTES_PER_S, ThrottledMove

MESSAGES = (600, 3_000)
"""Of the first wave, which is copied in two minutes, so that it is stopped in mid-wave on a slow machine, too, and of the second, which would take ten
and is cancelled."""
MESSAGES_WITHOUT_CANCEL = (600, 100)
REASON = "the demo shows how"


def show_brakes(move: ThrottledMove, progress: Progress, *, cancels: bool) -> None:
    """Carry out the move in front of a person; what did not happen is a fault in `progress`.

    Args:
        move: its topic and plan are made.
        progress: counts `moves_stopped`, `moves_resumed`, and `waves_cancelled` or `moves_finished`.
        cancels: the version can cancel a reassignment; else the second wave is carried out.

    Raises:
        RejectedMoveError: a person rejected the plan.
        LocalStackError: something did not happen in time.
    """
    _begin(move, progress)
    move.wait(lambda: ("requested", 0) in move.events(), "the first wave is asked for")
    move.stop(REASON)
    _tell(
        progress,
        "moves_stopped",
        f"{STOP_DAG}: the run ended in mid-wave; Kafka goes on with the first wave, and is asked for no second one",
        happened=move.events()[-1] == ("stopped", 0),
    )
    _begin(move, progress)
    move.wait(lambda: ("requested", 1) in move.events(), "the second wave is asked for")
    _tell(
        progress,
        "moves_resumed",
        "the second run went on: the first wave was asked for once and is done",
        happened=move.events().count(("requested", 0)) == 1,
    )
    if cancels:
        move.cancel(REASON)
        done = ("over", 1) in move.events() and move.replicas() == {0: {1, 3}, 1: {1, 2}}
        text = f"{CANCEL_DAG}: the second wave went back to its former replicas, the first one stays"
        _tell(progress, "waves_cancelled", text, happened=done)
    else:
        move.wait(lambda: ("done", None) in move.events(), "the second wave is carried out")
        done = move.wait_end() == "success" and move.replicas() == {0: {1, 3}, 1: {2, 3}}
        _tell(progress, "moves_finished", "the second wave is carried out", happened=done)
    text = f"no throttle is left, and all {sum(move.messages.values())} messages are there"
    left = [
        *(["a throttle was left on broker 3"] if b"throttled" in move.broker_config() else []),
        *([f"lost: {counted(lost, 'message')}"] if (lost := move.lost()) else []),
    ]
    (progress.fault if left else progress.say)("; ".join(left) or text)


def _begin(move: ThrottledMove, progress: Progress) -> None:
    gate = move.ask()
    url = move.stack.airflow.url
    progress.say(
        f"{gate.subject}, at most {THROTTLE_BYTES_PER_S:,} bytes/s a broker\n          waits at {url}{gate.page}"
    )
    if move.comment is None:
        progress.say(f"approve it as {move.approver.user}: {url}{gate.page}")


def _tell(progress: Progress, name: str, text: str, *, happened: bool) -> None:
    progress.counts[name] += happened
    (progress.say if happened else progress.fault)(text)
