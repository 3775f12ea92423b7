"""The server itself: moto's application with the lab's operations, on one port."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import BaseWSGIServer, make_server

from lab.aws.server.control import Control
from lab.aws.server.install import add_user, install


class QuietHandler(MotoRequestHandler):
    """Logs no request that was answered."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Logs requests that the server failed at."""
        if str(code).startswith("5"):
            super().log_request(code, size)


def make(host: str, port: int) -> BaseWSGIServer:
    """Returns the server, bound to its port."""
    install()
    add_user()
    application = Control(DomainDispatcherApplication(create_backend_app))
    return make_server(host, port, application, threaded=True, request_handler=QuietHandler)


@contextmanager
def running_server() -> Iterator[str]:
    """Runs the server in a thread of this process, on a free port of the loopback, and yields its URL."""
    server = make("127.0.0.1", 0)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
