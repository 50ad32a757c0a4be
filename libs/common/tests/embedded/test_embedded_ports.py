"""Nobody is given a port that somebody else was given."""

import socket
import subprocess
import sys

from headgate.common.embedded.ports import can_listen, free, is_open


def test_no_port_is_given_twice_in_one_process() -> None:
    ports = free(50) + free(50)
    assert len(set(ports)) == 100


def test_a_port_given_to_one_process_is_not_given_to_another() -> None:
    mine = free(20)
    code = (
        "import sys; from headgate.common.embedded import ports;"
        "print([port for port in map(int, sys.argv[1:]) if ports._reserve(port)])"
    )
    other = subprocess.run(
        [sys.executable, "-c", code, *map(str, mine)], capture_output=True, text=True, check=True
    )
    assert other.stdout.strip() == "[]"


def test_a_port_that_is_listened_on_is_known_as_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert is_open(port)
        assert not can_listen(port)
