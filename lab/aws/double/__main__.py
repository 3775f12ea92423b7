"""Serves the provider double, as the engine starts a provider: the port goes to standard output."""

from concurrent import futures

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

from lab.aws.double.provider import Double

LARGEST_MESSAGE = 2**28


def main() -> None:
    """Serves until the engine ends the process."""
    server = grpc.server(futures.ThreadPoolExecutor(16), options=[("grpc.max_receive_message_length", LARGEST_MESSAGE)])
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Double(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(port, flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
