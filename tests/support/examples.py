"""How many examples a test of hypothesis draws: all beside the slow tests, a fifth otherwise."""

import os

import hypothesis

FULL = os.environ.get("HYPOTHESIS_PROFILE") == "full"


def examples(number: int) -> hypothesis.settings:
    """Settings of a test that is worth `number` examples.

    `make slow` and `make test-all` draw that many. `make test` and `make coverage` draw a fifth of
    them, at least ten.
    """
    return hypothesis.settings(max_examples=number if FULL else max(10, number // 5), deadline=None)
