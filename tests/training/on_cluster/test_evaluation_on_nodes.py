"""Parts of an evaluation as nodes count them; `two_nodes` has them on a cluster."""

import pickle

import numpy as np
import pytest

from tff_keyboard.data.store.client_store import ClientStore
from tff_keyboard.evaluation.counts import counter, predictor_evaluation, typed_text
from tff_keyboard.execution.cluster import ray_engine
from tff_keyboard.models import build_model
from tff_keyboard.predictors.keras_predictor import KerasPredictor
from tff_keyboard.predictors.ngram.ngram_predictor import NGramPredictor
from tff_keyboard.storage.errors import DataError
from tff_keyboard.training.on_cluster import evaluation_on_nodes
from tff_keyboard.training.on_cluster.store_references import StoreReference


@pytest.fixture(scope="module")
def opened(store):
    return ClientStore(store)


@pytest.fixture(scope="module")
def cifg(opened):
    options = {"units": 7, "embedding_size": 5}
    model = build_model("cifg", vocabulary_size=len(opened.vocabulary), seed=1, **options)
    return KerasPredictor(model, opened.vocabulary)


@pytest.fixture(scope="module")
def ngram(opened):
    return NGramPredictor.train(opened.all_messages("train"), opened.vocabulary, order=2)


class Nodes:
    """Stands in for the engine: what it is sent is pickled, results come in any order."""

    def __init__(self, unused_cluster, files):
        self.files, self.sent, self.is_closed = files, [], False

    def run(self, job):
        self.sent.append(pickle.dumps((job.function, job.shared, job.items)))
        function, shared, items = pickle.loads(self.sent[-1])
        for place in reversed(range(len(items))):
            yield place, pickle.loads(pickle.dumps(function(shared, items[place])))

    def close(self):
        self.is_closed = True


@pytest.fixture
def nodes(monkeypatch):
    started = []

    def start(*arguments, tell):
        started.append(Nodes(*arguments))
        return started[-1]

    monkeypatch.setattr(ray_engine, "RayEngine", start)
    monkeypatch.setattr(counter, "_POSITIONS_AT_ONCE", 60)
    return started


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cifg", "ngram"])
def test_counts_of_nodes_equal_local_counts(request, opened, nodes, model):
    predictor = request.getfixturevalue(model)
    text = typed_text.of_population(opened, "validation")
    here = predictor_evaluation.evaluate(predictor, text, reference=opened.vocabulary)
    seen = []
    with evaluation_on_nodes.on_nodes("local") as elsewhere:
        for _ in range(2):
            there = predictor_evaluation.evaluate(
                predictor,
                text,
                reference=opened.vocabulary,
                progress=lambda done, total: seen.append(done / total),
                compute=elsewhere(opened, "validation"),
            )
    (engine,) = nodes  # the second evaluation found it joined
    assert engine.is_closed
    assert list(engine.files.values()) == [str(opened.directory.absolute() / "data_card.json")]
    for name, values in here.sums.items():
        np.testing.assert_array_equal(there.sums[name], values, err_msg=name)
    assert here.slices.keys() == there.slices.keys()
    assert seen[-1] == 1.0
    people = [client_id.encode() for client_id in opened.client_ids("validation")]
    assert not any(name in sent for sent in engine.sent for name in people)


@pytest.mark.slow
def test_predictors_that_cannot_be_pickled_are_evaluated_locally(opened, ngram, nodes):
    class Stays:
        vocabulary = opened.vocabulary

        def __reduce__(self):
            raise TypeError("a handle")

        def log_probabilities(self, ids):
            return ngram.log_probabilities(ids)

    told = []
    text = typed_text.of_population(opened, "validation")
    found = evaluation_on_nodes.EvaluationOnNodes("local", told.append)
    there = predictor_evaluation.evaluate(Stays(), text, compute=found.of(opened, "validation"))
    found.close()
    here = predictor_evaluation.evaluate(ngram, text)
    np.testing.assert_array_equal(there.sums["nll"], here.sums["nll"])
    assert len(told) == 1
    assert "cannot evaluate this kind" in told[0]
    assert nodes[0].sent == []


@pytest.mark.slow
def test_another_store_is_refused(opened, ngram):
    function = evaluation_on_nodes.CountPart(pickle.dumps(ngram))
    wrong = StoreReference(str(opened.directory.absolute()), "another hash")
    with pytest.raises(DataError, match="differs from the client store of the driver"):
        function((wrong, "validation", 0, None), slice(0, 1))


@pytest.mark.slow
def test_no_address_is_here():
    with evaluation_on_nodes.on_nodes("") as elsewhere:
        assert elsewhere is None
