"""The progress line: live on a terminal, infrequent in a log."""

import io

from tff_keyboard.host.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def run(stream, seconds_between, updates, **arguments):
    clock = Clock()
    with Progress("job", stream=stream, clock=clock, **arguments) as progress:
        for done in range(1, updates + 1):
            clock.now += seconds_between
            progress.update(done)
    return stream.getvalue()


def test_terminal_line_is_rewritten_and_removed():
    written = run(Terminal(), 1.0, 10, total=10, unit="users")
    assert "\n" not in written
    last = written.split("\r")
    assert last[-3].startswith("job 10/10 users  100%  1 users/s  ETA 0:00")
    assert last[-2].strip() == ""
    assert last[-1] == ""


def test_line_is_cut_to_the_width_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    written = run(Terminal(), 1.0, 10, total=10, unit="users")
    assert {len(line) for line in written.split("\r")} <= {0, 19}


def test_terminal_is_not_flooded():
    assert run(Terminal(), 0.001, 1000, total=1000).count("\rjob") <= 6


def test_log_has_infrequent_lines():
    written = run(io.StringIO(), 1.0, 100, unit="users")
    assert written.splitlines() == [
        "job 30 users  1 users/s",
        "job 60 users  1 users/s",
        "job 90 users  1 users/s",
    ]
    assert run(io.StringIO(), 0.1, 100) == ""


def test_resumed_job_counts_only_its_own_work():
    clock = Clock()
    stream = Terminal()
    progress = Progress("round", total=100, stream=stream, clock=clock)
    progress.start_from(50)
    clock.now = 10.0
    progress.update(60)
    assert "1/s  ETA 0:40" in stream.getvalue()
