"""The model card states known facts, and names unknown ones."""

import json

import pytest

from tests.support.fakes import ledger_header, save_untrained_run, tiny_config
from tests.support.keyboard import export_fakes
from tests.support.keyboard.export_fakes import export
from tff_keyboard.privacy.ledger.ledger import PrivacyLedger
from tff_keyboard.storage.errors import ExportError
from tflite_export.export import model_card
from tflite_export.export.export_options import ExportOptions

SECTIONS = [
    "Model",
    "Intended use",
    "Data",
    "Privacy",
    "Evaluation",
    "Effect of the export",
    "Limits",
]


def sections(card):
    parts = card.split("\n## ")
    return {part.split("\n", 1)[0]: part.split("\n", 1)[1].strip() for part in parts[1:]}


def card_of(run, folder, **arguments):
    paths = export(run, folder / "k.tflite", ExportOptions(), **arguments).paths
    return paths.part("keyboard.md").read_text()


def test_missing_measurements_are_stated(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    found = sections(card_of(run, tmp_path))
    assert list(found) == SECTIONS
    assert "unknown" in found["Data"]
    assert "tff-keyboard evaluate" in found["Evaluation"]
    assert "Not measured on text" in found["Effect of the export"]
    assert "trained without differential privacy" in found["Privacy"]
    assert "licence: not stated" in found["Model"]
    assert "44 rows" in found["Model"]


def test_data_people_slices_privacy_and_licence(store, tmp_path):
    from tff_keyboard.evaluation import run_evaluation

    config = tiny_config(store, "model.units=10", "model.embedding_size=6")
    run = save_untrained_run(tmp_path / "run", config)
    (run / "data_card.json").write_bytes((store / "data_card.json").read_bytes())
    evaluation = run_evaluation.evaluate_run(run, "held_out")
    run_evaluation.write_evaluation(run / "evaluation_held_out.json", evaluation)
    card_without_ledger = card_of(run, tmp_path)
    PrivacyLedger(run / "privacy_ledger.jsonl", ledger_header()).record(
        1, clip_norm=0.5, clients=10
    )
    found = sections(card_of(run, tmp_path, licence="CC BY 4.0"))
    held_out = json.loads((store / "data_card.json").read_text())["populations"]["held_out"]
    assert "licence: CC BY 4.0" in found["Model"]
    assert f"{held_out['words']:,}" in found["Data"]
    assert "\ntrain " not in found["Data"]  # exact counts of those whom noise hides
    assert "\ntrain " in sections(card_without_ledger)["Data"]
    assert "epsilon" in found["Privacy"]
    worth = found["Evaluation"]
    assert f"On {held_out['clients']} clients" in worth
    for part in ("top-3 recall", "first word", "worst tenth", "calibration"):
        assert part in worth


def test_a_failed_gate_that_was_allowed_is_on_the_card(tmp_path):
    run = export_fakes.save_run(tmp_path / "run")
    texts = dict(list(export_fakes.texts().items())[:2])
    options = ExportOptions(allow_loss=True, allow_little_text=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tflite_export.graphs.quantization.INT8_MAX", 1)
        paths = export(run, tmp_path / "k.tflite", options, held_out=texts).paths
    found = sections(paths.part("keyboard.md").read_text())["Effect of the export"]
    assert "failed and allowed by `--allow-loss`" in found
    assert "little text" in found
    assert "of 2 clients" in found


@pytest.mark.parametrize("data", ["{", "[]", '{"populations": 5}', "[" * 100_000])
def test_a_damaged_data_card_is_one_line(tmp_path, data):
    (tmp_path / "data_card.json").write_text(data)
    with pytest.raises(ExportError, match=r"data_card\.json: damaged"):
        model_card._data(tmp_path)
