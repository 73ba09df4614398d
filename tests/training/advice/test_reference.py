"""Every figure of recipes.toml is one of docs/results/, and every recipe has its figures."""

import csv
import pathlib

import pytest

from tff_keyboard.storage.errors import ConfigError
from tff_keyboard.training.advice import reference

ROWS = [
    pytest.param(model, id=f"{corpus.name}: {model.model}")
    for corpus in reference.corpora()
    for model in corpus.models
]


@pytest.mark.parametrize("model", ROWS)
def test_the_figures_are_those_that_were_measured(model):
    text = pathlib.Path("docs/results", model.file).read_text()
    found = {
        row["metric"]: row for row in csv.DictReader(text.splitlines()) if row["model"] == model.row
    }

    def percent(metric, column="value"):
        return round(100 * float(found[metric][column]), 2)

    columns = ("value", "low", "high")
    assert list(model.top_1) == [percent("recall_at_1_no_eos", column) for column in columns]
    assert model.top_3 == percent("recall_at_3_no_eos")
    assert model.keystrokes == (percent("kss") if "kss" in found else 0)
    assert model.perplexity == round(float(found["perplexity"]["value"]), 1)


def test_every_reference_config_has_its_figures_and_every_figure_its_config():
    commands = {model.command for corpus in reference.corpora() for model in corpus.models}
    files = {command for command in commands if command.endswith(".toml")}
    assert files == {
        str(path.relative_to("configs")) for path in pathlib.Path("configs/reference").glob("*")
    }


def test_every_corpus_has_its_page_and_a_recipe():
    for corpus in reference.corpora():
        assert pathlib.Path("docs", corpus.page).is_file()
        assert corpus.recipes
        assert all(model.start and model.tokens_m for model in corpus.recipes)


def test_without_the_file_it_is_one_line(tmp_path):
    with pytest.raises(ConfigError, match=r"No such file.*Install tff-keyboard"):
        reference.corpora(tmp_path / "recipes.toml")
    (tmp_path / "recipes.toml").write_text("[[corpora]]\nname = 'a'\nwrods = 3\n")
    with pytest.raises(ConfigError, match=r"Did you mean `corpora.*words`"):
        reference.corpora(tmp_path / "recipes.toml")
