"""A server for one page on this machine: 127.0.0.1 only, under a name that cannot be guessed."""

import hmac
import json
import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from upweight.base.checks import whole_number
from upweight.base.errors import ConfigError

_HOST, _LAST_PORT = "127.0.0.1", 65535
_HEADERS = {  # nothing is kept, and no other page learns the address or shows this one
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class PageServer(ThreadingHTTPServer):
    """``/TOKEN/`` is the page, ``/TOKEN/episode/7`` what there is to read of episode 7; all else is not found."""

    daemon_threads = True

    def __init__(self, page: str, episode: Callable[[int], dict[str, Any]], count: int, port: int = 0) -> None:
        port = whole_number("port (--port)", port, least=0, most=_LAST_PORT, error=ConfigError)
        super().__init__((_HOST, port), _Handler)
        self._page, self._episode, self._count = page.encode(), episode, count
        self._token = secrets.token_urlsafe(24)
        self._reading = threading.Lock()  # files are read by one thread at a time
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        """Where to find the page."""
        return f"http://{_HOST}:{self.server_port}/{self._token}/"

    def close(self) -> None:
        """Stop."""
        self.shutdown()
        self.server_close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self, host: str, path: str) -> tuple[str, bytes] | None:
        """Type and content of what is asked for, if the asker knows the token and came by this machine's own name."""
        token, _, rest = path.removeprefix("/").partition("/")
        is_ours = host in {f"{_HOST}:{self.server_port}", f"localhost:{self.server_port}"}  # no name somebody else made
        if not is_ours or not hmac.compare_digest(token.encode(), self._token.encode()):
            return None
        if rest == "":
            return "text/html; charset=utf-8", self._page
        what, _, number = rest.partition("/")
        if what != "episode" or not (number.isascii() and number.isdigit()) or int(number) >= self._count:
            return None
        with self._reading:
            return "application/json", json.dumps(self._read(int(number))).encode()

    def _read(self, number: int) -> dict[str, Any]:
        """Of an episode whose file is gone or damaged by now, the ``problem`` in one line, for the page to show."""
        try:
            return self._episode(number)
        except Exception as error:  # whatever it is, the other episodes can still be asked for
            return {"problem": f"It cannot be read. {' '.join(str(error).split()) or type(error).__name__}"}


class _Handler(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        found = self.server.answer(self.headers.get("Host", ""), self.path)
        kind, content = found or ("text/plain", b"not found")
        self.send_response(HTTPStatus.NOT_FOUND if found is None else HTTPStatus.OK)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **_HEADERS}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing: the address is nobody else's business."""
