"""Freed memory stays with the process: counted in page faults, which are no matter of time."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_FAULTS_OF_TWENTY_BUFFERS = """
import resource, sys
from tff_keyboard.host import malloc

if sys.argv[1] == "kept":
    assert malloc.keep_freed_memory()
b"x" * (40 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20):
    b"x" * (40 << 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is glibc's")


def _faults(how: str) -> int:
    command = [sys.executable, "-c", _FAULTS_OF_TWENTY_BUFFERS, how]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_freed_buffer_is_used_again():
    # The first of twenty still needs its pages (how many depends on the kernel's page size).
    assert 5 * _faults("kept") < _faults("as_it_is")
