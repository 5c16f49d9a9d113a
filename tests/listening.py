"""A small server of a test, in a thread of its own."""

import threading
from contextlib import contextmanager

END_ASKED_INTERVAL_S = 0.01


@contextmanager
def listening(server):
    """`server`, of `socketserver` or alike, answers until the block ends; its own half second until it ends would be waited for each time."""
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(END_ASKED_INTERVAL_S,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
