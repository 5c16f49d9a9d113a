"""What is posted is taken by who answers so, and by nobody else: a redirect is asked for by GET, without it."""

from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError

import pytest

from kafka_maintenance.operations.webhook import post_json
from tests.listening import listening


@pytest.fixture
def receiver():
    """Answers with the status in the path of its address; `got` has what it was sent."""

    class Receiver(BaseHTTPRequestHandler):
        got: list

        def do_POST(self):
            self.got.append((self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(int(self.path.strip("/")))
            self.send_header("Location", "/login")
            self.end_headers()

        def do_GET(self):
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    Receiver.got = []
    with listening(HTTPServer(("127.0.0.1", 0), Receiver)) as server:
        Receiver.url = f"http://127.0.0.1:{server.server_port}"
        yield Receiver


def test_what_is_taken_is_json(receiver):
    post_json(f"{receiver.url}/204", b"{}", 5)
    assert receiver.got == [("application/json", b"{}")]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 500])
def test_what_is_sent_elsewhere_or_refused_is_not_taken(receiver, status):
    with pytest.raises(HTTPError, match=str(status)):
        post_json(f"{receiver.url}/{status}", b"{}", 5)
