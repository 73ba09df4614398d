"""Which arguments of the public surface go by position: a promise, in TFF's order where it has one.

Everything else is by keyword, and Python's own TypeError says so.
"""

import inspect

import numpy as np
import pytest
import tensorflow_federated as tff

import tff_keyboard as tk

# Public name -> arguments that may go by position. Results that are made by the library are left
# out: `Interval` and the like.
BY_POSITION = {
    "aggregators.FedAtt": ("norm",),
    "aggregators.FedMed": (),
    "aggregators.PrivateFedAtt": (),
    "aggregators.PrivateMean": (),
    "aggregators.Median": (),
    "aggregators.TrimmedMean": ("trim_fraction",),
    "aggregators.BoundedTrimmedMean": ("attackers",),
    "aggregators.UpdateGuard": ("inner",),
    "aggregators.WeightCap": ("inner",),
    "aggregators.clipping": ("bound", "inner"),
    "aggregators.zeroing": ("bound", "inner"),
    "aggregators.ClientNoise": ("inner", "scale"),
    "aggregators.CompressedUpload": ("inner", "bits"),
    "aggregators.UploadSize": ("inner",),
    "aggregators.check_rule": ("factory",),
    "algorithms.build_fed_avg": ("model_fn",),
    "algorithms.build_fed_sgd": ("model_fn",),
    "algorithms.build_fedmed": ("model_fn", "factory"),
    "algorithms.local_context": (),
    "algorithms.with_initial_weights": ("process", "trainable"),
    "algorithms.with_noise": ("process", "factory"),
    "data.ClientStore": ("directory",),
    "data.NormalisationRules": (),
    "data.Tokenizer": ("rules",),
    "data.Vocabulary": ("words", "rules"),
    "data.batches_dataset": ("batches",),
    "data.client_batches": ("examples",),
    "data.client_data_batches": ("client_data", "vocabulary"),
    "data.client_data_vocabulary": ("client_data",),
    "data.evaluation_batches": ("examples",),
    "evaluation.FederatedEvaluator": ("model_fn",),
    "evaluation.evaluate_client_data": ("model", "vocabulary", "client_data"),
    "evaluation.evaluate_run": ("path", "population"),
    "evaluation.read_evaluation": ("path",),
    "export.ExportOptions": (),
    "export.TrainedRun": ("directory", "model", "vocabulary"),
    "export.export": ("run", "out", "options"),
    "export.verify": ("model", "public_key"),
    "metrics.federated_metrics": ("sums",),
    "metrics.metric_difference": ("first", "second", "name"),
    "metrics.metric_interval": ("sums", "name"),
    "metrics.metric_value": ("sums", "name"),
    "models.Cifg": (),
    "models.Gru": (),
    "models.Lstm2": (),
    "models.NextWordModel": (),
    "models.build_model": ("name",),
    "models.build_model_fn": ("name",),
    "models.load_model": ("directory",),
    "models.save_model": ("directory", "model", "vocabulary"),
    "privacy.Guarantee": (),
    "privacy.Plan": (),
    "privacy.Schedule": (),
    "privacy.calibrate_noise_multiplier": ("guarantee",),
    "privacy.fixed_size_gaussian": (),
    "privacy.plan": ("name", "schedule"),
    "privacy.privacy_statement": ("path",),
    "privacy.tree_gaussian": (),
    "privacy.unsampled_gaussian": (),
    "runtime.HybridKeyboard": ("network", "ngram", "weights", "cache", "tail"),
    "runtime.KeyboardPredictor": ("model_path", "vocabulary"),
    "runtime.installed_runtimes": (),
    "runtime.open_keyboard": ("path", "vocabulary"),
}
RESULTS = {
    "evaluation.Comparison",
    "evaluation.Evaluation",
    "export.ExportResult",
    "metrics.Interval",
    "metrics.Metric",
    "runtime.Strip",
}
MEAN = tff.aggregators.MeanFactory()


def public(name):
    namespace, _, attribute = name.partition(".")
    return getattr(getattr(tk, namespace), attribute)


def by_position(function):
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(function).parameters.values()
    return tuple(each.name for each in parameters if each.kind in kinds)


def test_every_public_name_that_can_be_called_is_in_the_table():
    names = {f"{space}.{name}" for space, names in tk.SURFACE.items() for name in names}
    assert {name for name in names if callable(public(name))} == {*BY_POSITION, *RESULTS}


@pytest.mark.parametrize("name", BY_POSITION)
def test_arguments_by_position(name):
    assert by_position(public(name)) == BY_POSITION[name]


@pytest.mark.parametrize("name", BY_POSITION)
def test_one_more_is_a_type_error(name):
    function = public(name)
    parameters = inspect.signature(function).parameters.values()
    needed = {
        each.name: None
        for each in parameters
        if each.kind is inspect.Parameter.KEYWORD_ONLY and each.default is inspect.Parameter.empty
    }
    with pytest.raises(TypeError, match=r"positional argument|no arguments|abstract class"):
        function(*[None] * (len(BY_POSITION[name]) + 1), **needed)


@pytest.mark.parametrize(
    "ours, theirs, count",
    [
        (tk.aggregators.clipping, tff.aggregators.clipping_factory, 2),
        (tk.aggregators.zeroing, tff.aggregators.zeroing_factory, 2),
        (tk.algorithms.build_fed_avg, tff.learning.algorithms.build_weighted_fed_avg, 1),
        (tk.algorithms.build_fed_sgd, tff.learning.algorithms.build_fed_sgd, 1),
    ],
)
def test_the_order_is_that_of_tff(ours, theirs, count):
    same = {"clipping_norm": "bound", "zeroing_norm": "bound", "inner_agg_factory": "inner"}
    expected = tuple(same.get(name, name) for name in by_position(theirs)[:count])
    assert by_position(ours) == expected


def test_values_by_position_are_those_by_keyword():
    assert tk.aggregators.FedAtt(2)._norm == tk.aggregators.FedAtt(norm="2")._norm == "2"
    assert tk.aggregators.TrimmedMean(0.2)._trim_fraction == 0.2
    assert tk.aggregators.BoundedTrimmedMean(0.2)._attackers == 0.2
    assert tk.aggregators.ClientNoise(MEAN, 0.5)._stddev == 0.5
    assert tk.aggregators.CompressedUpload(MEAN, 2)._bits == 2


@pytest.mark.parametrize("value", [2, 0.2, "2", None, object(), tff.aggregators.SumFactory()])
def test_something_else_than_a_factory_is_a_type_error(value):
    for name in ("UpdateGuard", "WeightCap", "ClientNoise", "CompressedUpload", "UploadSize"):
        with pytest.raises(TypeError, match=r"`inner` must be a tff\.aggregators\.WeightedAgg"):
            getattr(tk.aggregators, name)(value)
    for bound in (tk.aggregators.clipping, tk.aggregators.zeroing):
        with pytest.raises(TypeError, match="`inner` must be"):
            bound(1.0, value)
        with pytest.raises(TypeError, match="`bound` must be a number"):
            bound(MEAN, MEAN)
    with pytest.raises(TypeError, match="`factory` must be"):
        tk.aggregators.check_rule(value)
    with pytest.raises(TypeError, match=r"`factory` must be `tff_keyboard\.aggregators\.FedMed`"):
        tk.algorithms.build_fedmed(
            lambda: None, value, client_optimizer=None, server_optimizer=None
        )
    with pytest.raises(TypeError, match="`factory` must be"):
        tk.algorithms.with_noise(None, value, rounds=1)


@pytest.mark.parametrize("value", [2, -1])
def test_a_value_out_of_range_names_its_argument(value):
    with pytest.raises(ValueError, match="`trim_fraction`"):
        tk.aggregators.TrimmedMean(value)
    with pytest.raises(ValueError, match="`attackers`"):
        tk.aggregators.BoundedTrimmedMean(value)


def test_a_bound_may_be_a_whole_number():
    for bound in (tk.aggregators.clipping, tk.aggregators.zeroing):
        process = bound(1, MEAN).create(tff.TensorType(np.float32, [2]), tff.TensorType(np.float32))
        assert process.is_weighted
