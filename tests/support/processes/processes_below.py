"""Processes below a process, and the ports on which they listen."""

import psutil


def descendants(pid):
    """Running processes below `pid`, without zombies."""
    found = psutil.Process(pid).children(recursive=True) if psutil.pid_exists(pid) else []
    return [process.pid for process in found if is_running(process.pid)]


def is_running(pid):
    """Whether `pid` is a process that is not a zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def name(pid):
    """The process's name, "" if it has ended."""
    try:
        return psutil.Process(pid).name()
    except psutil.NoSuchProcess:
        return ""


def listening_workers(pid):
    """TFF workers below `pid` that listen on a TCP port: name -> ports."""
    workers = [child for child in descendants(pid) if name(child).startswith("worker_binary")]
    ports = {f"{name(child)} ({child})": listening_ports(child) for child in workers}
    return {worker: found for worker, found in ports.items() if found}


def listening_ports(pid):
    """TCP ports on which a process listens."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return []
    return [each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN]
