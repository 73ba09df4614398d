"""No count of text is exported if the noise of any run that led to the model hides its clients."""

import pytest

from tests.privacy.ledger.test_lineage import OURS, TREE, make_run
from tff_keyboard.data.vocabulary import SPECIAL_WORDS, NormalisationRules, Vocabulary
from tff_keyboard.models import build_model
from tff_keyboard.models.saved_model import save_model
from tff_keyboard.privacy.ledger import lineage
from tff_keyboard.privacy.ledger.lineage import record_origin
from tff_keyboard.storage.errors import ExportError
from tff_keyboard.storage.run_directory import RunDirectory
from tflite_export.export import private_runs


def refuse_counts(directory, client_ids):
    private_runs.refuse_counts(directory, client_ids, "words of", "Leave them out.")


@pytest.mark.parametrize("generations", [1, 2])
@pytest.mark.parametrize("moved", [False, True])
def test_a_public_run_that_continues_a_private_one(tmp_path, generations, moved):
    private = make_run(tmp_path / "private", ["ann", "bob"], header=TREE)
    record_origin(RunDirectory(private))
    last = private
    for number in range(generations):
        name = f"public_{number}"
        last = make_run(tmp_path / name, ["zoe"], initial_model=str(last / "model"))
        record_origin(RunDirectory(last))
    if moved:
        private.rename(tmp_path / "elsewhere")
    assert not private_runs.is_private(last)
    for place in (last, last / "model"):
        with pytest.raises(ExportError, match=r"continues .*private.* words of their text"):
            refuse_counts(place, ["bob", "zoe"])
        if moved:
            with pytest.raises(ExportError, match="continues"):
                refuse_counts(place, ["zoe"])
        else:
            refuse_counts(place, ["zoe"])


def test_private_and_public_runs(tmp_path):
    private = make_run(tmp_path / "private", OURS, header=TREE)
    with pytest.raises(ExportError, match="was trained with privacy, but"):
        refuse_counts(private, ["zoe"])
    first = make_run(tmp_path / "first", OURS)
    refuse_counts(make_run(tmp_path / "second", OURS, initial_model=str(first)), OURS)


def test_a_copy_of_the_model_of_a_public_run_that_continues_a_private_one(tmp_path):
    private = make_run(tmp_path / "private", ["ann"], header=TREE)
    record_origin(RunDirectory(private))
    public = make_run(tmp_path / "public", ["zoe"], initial_model=str(private))
    record_origin(RunDirectory(public))
    assert lineage.continues_private_run(RunDirectory(public))
    assert not lineage.continues_private_run(RunDirectory(private))
    copy = tmp_path / "copy"
    model = build_model("gru", vocabulary_size=9, seed=1, units=2, embedding_size=2)
    vocabulary = Vocabulary((*SPECIAL_WORDS, *"abcde"), NormalisationRules())
    save_model(copy, model, vocabulary, continues_private_run=True)
    with pytest.raises(ExportError, match="continues"):
        refuse_counts(copy, ["zoe"])
    later = make_run(tmp_path / "later", ["zoe"], initial_model=str(copy))
    record_origin(RunDirectory(later))
    assert lineage.continues_private_run(RunDirectory(later))
    save_model(copy, model, vocabulary)
    refuse_counts(copy, ["zoe"])
