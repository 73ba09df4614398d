"""Federated next-word models for a keyboard.

    import tff_keyboard as tk

    rule = tk.aggregators.FedAtt(norm=2)

`SURFACE` is the whole promise: its names keep their meaning as semantic versioning has it, all else
may change. It says where a name is defined and nothing is imported before the name is used
(PEP 562), TensorFlow and TFF least of all. So the table is a directory, no floor of the library:
`tflite_export` stands above this package, and is written down here all the same.
"""

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Mapping
from typing import Any

__version__ = "0.1.0"

# Namespace -> name -> module and attribute.
SURFACE: Mapping[str, Mapping[str, str]] = {
    "aggregators": {
        "FedAtt": "tff_keyboard.federated.algorithms.fedatt.aggregator.FedAttFactory",
        "FedMed": "tff_keyboard.federated.algorithms.fedmed.aggregator.FedMedFactory",
        "PrivateFedAtt": "tff_keyboard.federated.algorithms.fedatt.private_fedatt"
        ".PrivateFedAttFactory",
        "PrivateMean": "tff_keyboard.federated.aggregation.private.private_mean.PrivateMeanFactory",
        "Median": "tff_keyboard.federated.aggregation.robust_mean.MedianFactory",
        "TrimmedMean": "tff_keyboard.federated.aggregation.robust_mean.TrimmedMeanFactory",
        "BoundedTrimmedMean": "tff_keyboard.federated.aggregation.bounded_trimmed_mean"
        ".BoundedTrimmedMeanFactory",
        "UpdateGuard": "tff_keyboard.federated.aggregation.guards.update_guard.UpdateGuardFactory",
        "WeightCap": "tff_keyboard.federated.aggregation.guards.weight_cap.WeightCapFactory",
        "clipping": "tff_keyboard.federated.aggregation.guards.norm_bounds.clipping_factory",
        "zeroing": "tff_keyboard.federated.aggregation.guards.norm_bounds.zeroing_factory",
        "ClientNoise": "tff_keyboard.federated.algorithms.fedatt.client_noise.ClientNoiseFactory",
        "CompressedUpload": "tff_keyboard.federated.aggregation.compression"
        ".CompressedUploadFactory",
        "UploadSize": "tff_keyboard.federated.aggregation.upload_size.UploadSizeFactory",
        "check_rule": "tff_keyboard.federated.aggregation.properties.check_rule",
    },
    "algorithms": {
        "build_fed_avg": "tff_keyboard.federated.algorithms.fed_avg.build_fed_avg",
        "build_fed_sgd": "tff_keyboard.federated.algorithms.fed_sgd.build_fed_sgd",
        "build_fedmed": "tff_keyboard.federated.algorithms.fedmed.process.build_fedmed",
        "local_context": "tff_keyboard.program.engines.execution.install_context",
        "with_initial_weights": "tff_keyboard.federated.learning.composition.with_initial_weights",
        "with_noise": "tff_keyboard.federated.aggregation.private.host_noise.with_noise",
    },
    "data": {
        "ClientStore": "tff_keyboard.data.store.client_store.ClientStore",
        "NormalisationRules": "tff_keyboard.data.vocabulary.NormalisationRules",
        "Tokenizer": "tff_keyboard.data.text.tokenizer.Tokenizer",
        "Vocabulary": "tff_keyboard.data.vocabulary.Vocabulary",
        "batches_dataset": "tff_keyboard.data.batches.batches_dataset",
        "client_batches": "tff_keyboard.data.batches.client_batches",
        "client_data_batches": "tff_keyboard.data.client_data.client_data_batches",
        "client_data_vocabulary": "tff_keyboard.data.client_data.client_data_vocabulary",
        "evaluation_batches": "tff_keyboard.data.batches.evaluation_batches",
    },
    "evaluation": {
        "Comparison": "tff_keyboard.evaluation.results.comparison.Comparison",
        "Evaluation": "tff_keyboard.evaluation.results.result.Evaluation",
        "FederatedEvaluator": "tff_keyboard.federated.learning.federated_evaluation"
        ".FederatedEvaluator",
        "evaluate_run": "tff_keyboard.evaluation.run_evaluation.evaluate_run",
        "read_evaluation": "tff_keyboard.evaluation.run_evaluation.read_evaluation",
    },
    "export": {
        "ExportOptions": "tflite_export.export.export_options.ExportOptions",
        "ExportResult": "tflite_export.export.export_result.ExportResult",
        "TrainedRun": "tflite_export.export.trained_run.TrainedRun",
        "export": "tflite_export.export.export.export",
        "verify": "tflite_export.gate.verification.verify",
    },
    "metrics": {
        "METRICS": "tff_keyboard.evaluation.metrics.metric_table.METRICS",
        "Interval": "tff_keyboard.evaluation.statistics.jackknife.Interval",
        "Metric": "tff_keyboard.evaluation.metrics.metric_table.Metric",
        "federated_metrics": "tff_keyboard.evaluation.statistics.sums.federated_metrics",
        "metric_difference": "tff_keyboard.evaluation.statistics.sums.metric_difference",
        "metric_interval": "tff_keyboard.evaluation.statistics.sums.metric_interval",
        "metric_value": "tff_keyboard.evaluation.statistics.sums.metric_value",
    },
    "models": {
        "MODELS": "tff_keyboard.models.registry.MODELS",
        "Cifg": "tff_keyboard.models.cifg.Cifg",
        "Gru": "tff_keyboard.models.gru.Gru",
        "Lstm2": "tff_keyboard.models.lstm2.Lstm2",
        "NextWordModel": "tff_keyboard.models.next_word_model.NextWordModel",
        "build_model": "tff_keyboard.models.registry.build_model",
        "build_model_fn": "tff_keyboard.federated.learning.variable_model.build_model_fn",
        "load_model": "tff_keyboard.models.saved_model.load_model",
        "save_model": "tff_keyboard.models.saved_model.save_model",
    },
    "privacy": {
        "Banded": "tff_keyboard.config.sections.privacy_config.Banded",
        "Blt": "tff_keyboard.config.sections.privacy_config.Blt",
        "Gaussian": "tff_keyboard.config.sections.privacy_config.Gaussian",
        "GaussianAdaptive": "tff_keyboard.config.sections.privacy_config.GaussianAdaptive",
        "Tree": "tff_keyboard.config.sections.privacy_config.Tree",
        "TreeAdaptive": "tff_keyboard.config.sections.privacy_config.TreeAdaptive",
        "Guarantee": "tff_keyboard.privacy.accounting.accounting.Guarantee",
        "Plan": "tff_keyboard.privacy.claims.planning.Plan",
        "Schedule": "tff_keyboard.privacy.claims.planning.Schedule",
        "calibrate_noise_multiplier": "tff_keyboard.privacy.accounting.accounting"
        ".calibrate_noise_multiplier",
        "fixed_size_gaussian": "tff_keyboard.privacy.accounting.accounting.fixed_size_gaussian",
        "plan": "tff_keyboard.privacy.claims.planning.plan",
        "poisson_gaussian": "tff_keyboard.privacy.accounting.accounting.poisson_gaussian",
        "privacy_statement": "tff_keyboard.privacy.claims.statement.privacy_statement",
        "tree_gaussian": "tff_keyboard.privacy.accounting.accounting.tree_gaussian",
        "unsampled_gaussian": "tff_keyboard.privacy.accounting.accounting.unsampled_gaussian",
    },
    "runtime": {
        "HybridKeyboard": "tflite_export.runtime.hybrid_keyboard.HybridKeyboard",
        "KeyboardPredictor": "tflite_export.runtime.keyboard_predictor.KeyboardPredictor",
        "Strip": "tflite_export.runtime.keyboard_predictor.Strip",
        "installed_runtimes": "tflite_export.runtime.interpreters.installed_runtimes",
        "open_keyboard": "tflite_export.runtime.hybrid_keyboard.open_keyboard",
    },
}
__all__ = ["__version__", *SURFACE]

# Namespaces that no folder of this package is.
_BESIDE = {
    "aggregators": "TFF aggregation factories: rules, privacy, guards and compression.",
    "algorithms": "Learning processes, what goes around them, and the context they run in.",
    "export": "From a trained model to a checked `.tflite` file.",
    "metrics": "What is counted of a model, with intervals over people.",
    "runtime": "An exported keyboard, without TensorFlow where LiteRT is installed.",
}


def lazy(namespace: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """`__all__`, `__getattr__` and `__dir__` of a namespace's module."""
    origins = SURFACE[namespace]

    def find(name: str) -> Any:
        module = sys.modules[f"{__name__}.{namespace}"]
        if name not in origins:
            message = f"module {module.__name__!r} has no public name {name!r}"
            raise AttributeError(message, name=name, obj=module)
        origin, _, attribute = origins[name].rpartition(".")
        try:
            value = getattr(importlib.import_module(origin), attribute)
        except ModuleNotFoundError as error:
            message = (
                f"`{module.__name__}.{name}` needs {error.name}, which is not installed here. "
                "Install tff-keyboard with its dependencies."
            )
            raise ModuleNotFoundError(message, name=error.name) from None
        setattr(module, name, value)
        return value

    return list(origins), find, lambda: list(origins)


def _module(namespace: str) -> Any:
    """A module that no file is."""
    module: Any = importlib.util.module_from_spec(
        importlib.machinery.ModuleSpec(f"{__name__}.{namespace}", None)
    )
    module.__doc__ = _BESIDE[namespace]
    module.__all__, module.__getattr__, module.__dir__ = lazy(namespace)
    return module


for _name in _BESIDE:
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module(_name)


def __getattr__(name: str) -> Any:
    if name in SURFACE:
        return importlib.import_module(f"{__name__}.{name}")
    message = f"module {__name__!r} has no public name {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return list(__all__)
