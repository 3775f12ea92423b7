"""Runs before a worker of a group is told to stop: waits until the leader has ended.

All pods of a group are told to stop at once, and a rank that ends takes the leader's running requests with it.
Arguments: the leader's port, most seconds to wait.
"""

import os
import socket
import sys
import time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
deadline = time.monotonic() + seconds
while time.monotonic() < deadline:
    try:
        socket.create_connection((os.environ["LWS_LEADER_ADDRESS"], port), timeout=5).close()
    except OSError:
        break
    time.sleep(1)
