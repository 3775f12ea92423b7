"""A stand-in for the agent of EKS Pod Identity, which gives pods the credentials of their service account's role.

It answers as the agent does (docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html): the SDK reads its
address and the file of a token from the pod's environment, and sends the token as it is. The credentials are those of
the S3 server of the tests. Limit: that server accepts no session tokens, so the stand-in gives none.
"""

import datetime
import http.server
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lab.cluster.servers import S3_ACCESS_KEY, S3_SECRET_KEY

TOKEN = "token of the service account"


class StandInAgent(http.server.ThreadingHTTPServer):
    """Counts the requests that it answers with credentials."""

    daemon_threads = True
    given = 0
    broken = False
    """Whether it answers with an error, as an agent that does not reach AWS."""


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers `GET /v1/credentials`."""

    server: StandInAgent

    def do_GET(self) -> None:
        """Gives credentials for the token."""
        if self.path != "/v1/credentials" or self.headers["Authorization"] != TOKEN or self.server.broken:
            self.send_error(500 if self.server.broken else 400)
            return
        self.server.given += 1
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=6)
        answer = {
            "AccessKeyId": S3_ACCESS_KEY,
            "SecretAccessKey": S3_SECRET_KEY,
            "Token": None,
            "Expiration": expires.isoformat(),
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Prints nothing."""


@contextmanager
def running_agent() -> Iterator[StandInAgent]:
    """Yields a stand-in of the agent on a port of this machine, which SDKs accept without TLS."""
    with StandInAgent(("127.0.0.1", 0), Handler) as agent:
        serving = threading.Thread(target=agent.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield agent
        finally:
            agent.shutdown()
            serving.join()


def injected(agent: StandInAgent, directory: Path) -> Mapping[str, str]:
    """Returns the variables that Pod Identity sets in a pod at its admission, with the token in `directory`."""
    token = directory / "eks-pod-identity-token"
    token.write_text(TOKEN)
    return {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"http://127.0.0.1:{agent.server_address[1]}/v1/credentials",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
    }
