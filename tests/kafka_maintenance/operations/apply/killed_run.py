"""A run of `apply` that is killed after so many of its events."""

from controller_core.adapters.object_store.open import MemoryStore


class Killed(BaseException):
    """The process is gone: no handler of ours may stop it."""


def killing(store: MemoryStore, after: int) -> MemoryStore:
    """The same store; the process dies right after, or right before, its nth write: two for each event."""

    class Dies(MemoryStore):
        count = 0

        def put_new(self, key: str, data: bytes) -> None:
            self.count += 1
            if self.count * 2 - 1 == after:
                raise Killed
            super().put_new(key, data)
            if self.count * 2 == after:
                raise Killed

    dying = Dies()
    dying._objects = store._objects
    return dying
