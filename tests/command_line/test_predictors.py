"""A package can register the files of another kind of model."""

from tests.support.fake_distribution import install
from tff_keyboard.command_line.predictors import open_predictors
from tff_keyboard.evaluation.model_specs import references
from tff_keyboard.storage import entry_points

OPENER = """
from tff_keyboard.evaluation.model_specs.named_predictor import NamedPredictor

def open_file(path, name, vocabularies):
    return NamedPredictor(name, "other", None, {"vocabularies": len(vocabularies)}, str(path))
"""


def test_a_registered_function_opens_the_files_of_its_suffix(tmp_path, monkeypatch):
    install(tmp_path, "other", {references.FILE_GROUP: {"other": "other_opener:open_file"}})
    (tmp_path / "other_opener.py").write_text(OPENER)
    monkeypatch.syspath_prepend(tmp_path)
    entry_points.find.cache_clear()
    model = tmp_path / "model.other"
    (opened,) = open_predictors([str(model)], None)
    entry_points.find.cache_clear()
    assert (opened.name, opened.kind, opened.source) == ("model.other", "other", str(model))
    assert opened.details == {"vocabularies": 0}
