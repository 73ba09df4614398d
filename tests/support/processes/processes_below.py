"""Which processes below this one take connections from a network."""

import contextlib
import pathlib

from tools import process_tree


def listening_workers(pid):
    """Names of the TFF workers below `pid` that listen on a TCP port, with the port."""
    named = [(child, process_tree.name(child)) for child in process_tree.descendants(pid)]
    ports = {
        f"{name} ({child})": listening_ports(child)
        for child, name in named
        if name.startswith("worker_binary")
    }
    return {name: found for name, found in ports.items() if found}


def listening_ports(pid):
    """Addresses, in hexadecimal, of the TCP sockets on which a process listens."""
    own = set()
    with contextlib.suppress(OSError):  # it is gone
        for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # closed since it was listed
                target = str(descriptor.readlink())
                if target.startswith("socket:["):
                    own.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6") if own else ():
        with contextlib.suppress(OSError):
            for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == "0A" and words[9] in own:  # 0A is LISTEN
                    found.append(words[1])
    return found
