"""A webhook on loopback that keeps what it was sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.listening import listening


@contextmanager
def webhook_receiver() -> Iterator[type[BaseHTTPRequestHandler]]:
    """Answers with `status` and, to a GET, with 200; `got` has the bodies that it was sent, `types` what they are."""

    class Receiver(BaseHTTPRequestHandler):
        got: list[bytes]
        types: list[str]
        status = 200
        url = ""

        def do_POST(self):
            self.types.append(self.headers["Content-Type"])
            self.got.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(self.status)
            self.send_header("Location", "/login")
            self.end_headers()

        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    Receiver.got, Receiver.types = [], []
    with listening(HTTPServer(("127.0.0.1", 0), Receiver)) as server:
        Receiver.url = f"http://127.0.0.1:{server.server_port}/hook"
        yield Receiver
