"""What `make prove-vllm` reads in a pod, read of this machine."""

import json
import socket
import subprocess
import sys

from tests.prove.server import IN_POD, Listening


def test_listening_sockets_are_found_by_place_and_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as loopback, socket.create_server(("", 0)) as everywhere:
        program = (IN_POD / "read_processes.py").read_text()
        found = json.loads(subprocess.check_output([sys.executable, "-c", program]))
        ports = [each.getsockname()[1] for each in (loopback, everywhere)]
    assert ["127.0.0.1", ports[0]] in found["listening"]
    assert ["0.0.0.0", ports[1]] in found["listening"]
    reachable = Listening.of(found).reachable
    assert [port in reachable for port in ports] == [False, True]


def test_ports_of_the_kernels_choice_are_counted_without_their_number() -> None:
    found = {"random_ports": [32768, 60999], "listening": [["0.0.0.0", 8000], ["10.1.2.3", 40000], ["::1", 40001]]}
    listening = Listening.of(found)
    assert listening.sockets == {"everywhere": {"8000": 1}, "loopback": {"random": 1}, "pod": {"random": 1}}
    assert listening.reachable == (8000, 40000)
