"""The table and picture of `benchmarks.round.round_sizes`, and errors of another Python."""

import pytest

from tff_keyboard_lab.benchmarks.round import round_sizes

RESULT = {
    "results": {
        "stock": {
            "clients_per_second": 2.0,
            "tokens_per_second": 20.0,
            "tokens_per_cpu_second": 15.0,
        },
        "ours": {
            "clients_per_second": 9.0,
            "tokens_per_second": 90.0,
            "tokens_per_cpu_second": 60.0,
        },
    },
    "ours_over": {"stock": 4.5},
    "cpu_ours_over": {"stock": 4.0},
    "peak_megabytes": {"ours": 400.0, "stock": 900.0, "python": 700.0},
}


def test_a_row_for_each_contestant_and_size():
    rows = round_sizes.table({"1": RESULT, "13": RESULT}).splitlines()[2:]
    assert rows[0] == "| 1 | ours | 9.0 | 90 | 60 |  |  |"
    assert rows[1] == "| 1 | stock TFF | 2.0 | 20 | 15 | 4.5 | 4.0 |"
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 1", "| 13", "| 13"]


def test_the_picture_is_a_png(tmp_path):
    round_sizes.plot({"1": RESULT, "13": RESULT}, tmp_path / "sizes.png")
    assert (tmp_path / "sizes.png").read_bytes().startswith(b"\x89PNG")


def test_programs_that_cannot_be_imported_are_reported(tmp_path):
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\ncase \"$2\" in *torch*) exit 0;; *) echo 'No module' >&2; exit 1;; esac\n"
    )
    python.chmod(0o755)
    actual, errors = round_sizes.importable(str(python))
    assert actual == {"torch": str(python)}
    no_jax = {"jax": "no --jax-python given"}
    assert errors == {"pfl": "No module", "flower": "No module", **no_jax}
    actual, errors = round_sizes.importable(None, str(python))
    assert errors["jax"] == "No module"


def test_without_python_all_others_are_left_out():
    actual, errors = round_sizes.importable(None)
    assert actual == {}
    assert set(errors) == {"torch", "pfl", "flower", "jax"}


@pytest.mark.parametrize("messages", round_sizes.SIZES)
def test_each_size_is_a_command_of_its_own(messages, tmp_path):
    size = round_sizes.SIZES[messages]
    words = round_sizes.command(size, tmp_path, 3, tmp_path / "out.json")
    assert f"--messages={messages}" in words
    assert f"--clients={size.clients}" in words
