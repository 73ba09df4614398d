"""The processes below this one, and the TCP ports on which they listen."""

import contextlib
import pathlib


def descendants(pid):
    """Process id to name, of all processes below `pid`."""
    parents, names = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # gone since it was listed
            start, _, rest = path.read_text().rpartition(") ")
            number, _, name = start.partition(" (")
            parents[int(number)], names[int(number)] = int(rest.split()[1]), name
    found, waiting = {}, [pid]
    while waiting:
        above = waiting.pop()
        below = [child for child, parent in parents.items() if parent == above]
        found.update((child, names[child]) for child in below)
        waiting.extend(below)
    return found


def listening_ports(pid):
    """Addresses, in hexadecimal, of the TCP sockets on which a process listens."""
    own = set()
    with contextlib.suppress(OSError):  # gone, or a zombie
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
