"""The bytes that a run sent, against sums by hand."""

import pytest

from tff_keyboard_lab.study.results.communication import account

ROW = {"clients_selected": 4, "clients": 3, "bytes_down": 4 * 40 + 10, "bytes_up": 3 * 40}


def test_totals():
    rows = [{**ROW, "bytes_rehearsal": 10}, {**ROW, "clients": 1, "bytes_up": 40}]
    total = account(rows, parameters=10)
    assert (total.rounds, total.model_bytes, total.uploads_per_round) == (2, 40, 2.0)
    assert total.bytes_down == 340
    assert total.bytes_up == 160
    assert total.total_bytes == 500
    assert total.upload_bytes == 40
    assert total.rehearsal_bytes == pytest.approx(10 / 8)


def test_what_the_aggregator_measured_counts():
    """Compression and topK send less than whole models."""
    rows = [
        {**ROW, "aggregator/inner/uploaded_bytes": 30},
        {**ROW, "aggregator/x/uploaded_bytes": 120, "aggregator/bytes_not_uploaded": 40},
    ]
    assert account(rows, parameters=10).bytes_up == 30 + 80


def test_uploads_spared_by_topk_are_counted_compressed():
    """Spared uploads were counted whole, so that compressed runs sent less than nothing."""
    rows = [
        {**ROW, "a/uncompressed_bytes": 120, "a/uploaded_bytes": 30, "a/bytes_not_uploaded": 60}
    ]
    assert account(rows, parameters=10).bytes_up == 15


def test_round_without_uploads():
    total = account([{**ROW, "clients": 0, "bytes_up": 0}], parameters=10)
    assert total.upload_bytes == 0


def test_rejects_runs_without_federated_rounds():
    with pytest.raises(ValueError, match="no rounds"):
        account([], parameters=10)
    with pytest.raises(ValueError, match="not a federated training"):
        account([{"tokens": 5}], parameters=10)


def test_a_client_that_sends_two_tensors_of_the_size_of_the_model():
    """MimeLite: only the update passes the aggregator that measures, and both are compressed."""
    rows = [{**ROW, "bytes_up": 240, "a/uncompressed_bytes": 120, "a/uploaded_bytes": 30}]
    assert account(rows, parameters=10).bytes_up == 60
