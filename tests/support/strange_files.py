"""Files that no reader of a run directory may wait for, read or follow."""

import contextlib
import os
import pathlib
import resource
import signal

KINDS = ("pipe", "device", "pipe behind a link")


def put_strange_file(path, kind):
    """Replaces the file `path`, if it exists."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path.with_name("pipe"))
        path.symlink_to("pipe")


@contextlib.contextmanager
def limited(seconds=20, memory=2**31):
    """A reader that waits, or fills the memory, raises an error instead."""

    def late(*unused):
        raise AssertionError(f"the reader waited for {seconds} s")

    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[0])
    used = pages * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, late)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, handler)
        resource.setrlimit(resource.RLIMIT_AS, before)
