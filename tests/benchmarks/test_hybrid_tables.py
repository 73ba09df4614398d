"""What the benchmarks of the hybrid print, by hand."""

import gzip
import json

import numpy as np
import pytest

from benchmarks import hybrid_latency, hybrid_table
from tff_keyboard.evaluation.comparison import Comparison
from tff_keyboard.evaluation.metric_table import HOST_SUMS
from tff_keyboard.evaluation.result import Evaluation, ModelFacts, TextFacts

PEOPLE = 12


def evaluation(name, hits, nll, oov_hits=0):
    """Everybody typed 100 words, 10 of them unknown, and 10 ends of messages."""
    spread = np.arange(PEOPLE) % 3 - 1
    sums = {key: np.zeros(PEOPLE) for key in HOST_SUMS}
    sums |= {
        "tokens": np.full(PEOPLE, 110.0),
        "eos_tokens": np.full(PEOPLE, 10.0),
        "oov_tokens": np.full(PEOPLE, 10.0),
        "hits_at_1": hits / 2 + spread,
        "hits_at_3": hits + spread,
        "oov_hits_at_3": np.full(PEOPLE, float(oov_hits)),
        "characters": np.full(PEOPLE, 500.0),
        "typed_free": 500.0 - 5 * hits + spread,
        "nll": 110.0 * nll + spread,
    }
    people = tuple(f"p{i}" for i in range(PEOPLE))
    text = TextFacts(name="held_out", people=people, words=100 * PEOPLE)
    model = ModelFacts(name=name, kind="x", source=name, details={})
    return Evaluation(model=model, text=text, sums=sums)


@pytest.fixture
def comparison():
    return Comparison(
        (
            evaluation("hybrid", 30.0, 4.0, oov_hits=2),
            evaluation("network", 20.0, 4.5),
            evaluation("ngram:500kB", 25.0, 5.0),
            evaluation("ngram", 26.0, 4.8),
        )
    )


def row(table, label):
    line = next(line for line in table.splitlines() if line.startswith(f"| {label} |"))
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_the_hybrid_is_held_against_its_better_part(comparison):
    table = hybrid_table.table("made_up", comparison)
    assert "**`made_up`**: 12 held-out people, 1,200 words (10.0% OOV)." in table
    top3 = row(table, "top-3 recall")
    assert [cell.split()[0] for cell in top3[1:5]] == ["32.00", "20.00", "25.00", "26.00"]
    # 32 with the unknown words, against the n-gram's 25, not the network's 20.
    assert top3[5].startswith("+7.00 [")
    assert top3[5].endswith("+28% relative")
    assert row(table, "top-3 recall, unknown words")[5].startswith("+20.00")
    assert "relative" not in row(table, "top-3 recall, unknown words")[5]
    # Of the parts the network has the lower perplexity.
    assert row(table, "perplexity")[5].startswith(f"factor {np.exp(-0.5):.3f} [")


def test_a_comparison_that_is_there_is_not_made_again(comparison, tmp_path, monkeypatch, capsys):
    out = tmp_path / "work" / "sms"
    out.mkdir(parents=True)
    (out / "comparison.json").write_text(json.dumps(comparison.to_json()))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- table: hybrid -->\nold\n<!-- end: hybrid -->\nafter\n")
    monkeypatch.setattr(hybrid_table.subprocess, "run", pytest.fail)
    arguments = ["x", "sms=runs/sms", f"--workdir={tmp_path / 'work'}", f"--markdown={page}"]
    monkeypatch.setattr("sys.argv", arguments)
    hybrid_table.main()
    text = page.read_text()
    assert text.startswith("before\n<!-- table: hybrid -->\n\n**`sms`**")
    assert text.endswith("<!-- end: hybrid -->\nafter\n")
    assert "old" not in text
    assert "+28% relative" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["text.tsv", "text.tsv.gz"])
def test_latency_takes_who_typed_most(tmp_path, name):
    data = b"ann\thi\nbob\tone\nbob\ttwo\ncid\ta\ncid\tb\ncid\tc\n"
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert hybrid_latency.messages_of(tmp_path / name, 2) == ["a", "b", "c", "one", "two"]


def test_keys_and_percentiles():
    keys = list(hybrid_latency.keys_of("a bc"))
    assert [text for text, _ in keys] == ["", "a", "a ", "a b", "a bc"]
    assert [begins for _, begins in keys] == [True, False, True, False, False]
    watch = hybrid_latency.Stopwatch()
    for number in range(100):
        watch.time("key", lambda: None, "first of a word" if number % 10 == 0 else "")
    watch.cpu["key"] = [float(number) for number in range(100)]
    key, first = watch.rows()
    assert (key["calls"], first["calls"]) == (100, 10)
    assert [key[f"cpu_p{p}_ms"] for p in (50, 95, 99)] == [50.0, 95.0, 99.0]
    assert "50.000 / 95.000 / 99.000" in hybrid_latency.table([key])
