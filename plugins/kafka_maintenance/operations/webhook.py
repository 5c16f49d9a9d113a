"""Posts JSON to an address that somebody has set, for the audit chain and for notices."""

import urllib.request
from typing import Any, Final


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A receiver that sends us elsewhere has not taken what was posted: there it would be asked for by GET, without it."""

    def redirect_request(self, *_: Any) -> None:
        """Never; the answer is the error that it is."""


_OPENER: Final = urllib.request.build_opener(_NoRedirect)


def post_json(url: str, document: bytes, timeout_s: float) -> None:
    """Returns when the receiver has taken it.

    Raises:
        OSError: it has not, or redirects.
        HTTPException, ValueError: what answers speaks no HTTP, or the address is none.
    """
    request = urllib.request.Request(url, document, {"Content-Type": "application/json"}, method="POST")  # noqa: S310 - who sets an address checks its scheme
    with _OPENER.open(request, timeout=timeout_s):
        pass
