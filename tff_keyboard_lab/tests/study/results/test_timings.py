"""CPU seconds of a run's rounds."""

from tff_keyboard.storage import names
from tff_keyboard_lab.study.results import timings


def test_cpu_seconds_are_the_median_after_the_first_round(tmp_path):
    path = tmp_path / names.TIMINGS
    assert timings.cpu_seconds_per_round(tmp_path) is None
    path.write_text("round,round_seconds\n1,2.0\n2,2.0\n")  # of an earlier version
    assert timings.cpu_seconds_per_round(tmp_path) is None
    path.write_text("round,round_seconds,round_cpu_seconds\n1,9,90\n2,1,3\n3,1,2\n4,1,40\n")
    assert timings.cpu_seconds_per_round(tmp_path) == 3.0
