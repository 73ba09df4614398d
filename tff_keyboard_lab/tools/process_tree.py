"""Reads the descendants of a process and their memory from /proc."""

import os
import pathlib

_PROC = pathlib.Path("/proc")


def descendants(pid: int) -> list[int]:
    """Returns the process ids of all descendants, in no order, without zombies."""
    children: dict[int, list[int]] = {}
    for directory in _PROC.iterdir():
        if directory.name.isdigit():
            try:
                fields = (directory / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(directory.name))
    process_ids, todo = [], [pid]
    while todo:
        below = children.get(todo.pop(), [])
        process_ids.extend(below)
        todo.extend(below)
    return process_ids


def is_running(pid: int) -> bool:
    """Returns whether `pid` is a process that is not a zombie."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def resident_megabytes(pid: int) -> float:
    """Returns the resident memory in MB (10^6 bytes); 0 if the process has ended."""
    return _status_megabytes(pid, "VmRSS:")


def peak_megabytes(pid: int) -> float:
    """Returns the largest resident memory so far in MB (10^6 bytes); 0 if the process has ended."""
    return _status_megabytes(pid, "VmHWM:")


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of all threads of the process so far; 0 if it has ended."""
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _status_megabytes(pid: int, field: str) -> float:
    try:
        for line in (_PROC / str(pid) / "status").read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    return 0.0


def reset_peak(pid: int) -> None:
    """Resets `peak_megabytes` of one of our processes to its current memory."""
    (_PROC / str(pid) / "clear_refs").write_text("5")
