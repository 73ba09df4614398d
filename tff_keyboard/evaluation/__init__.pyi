from tff_keyboard.algorithms.federated_evaluation import FederatedEvaluator
from tff_keyboard.evaluation.client_data_evaluation import evaluate_client_data
from tff_keyboard.evaluation.results.comparison import Comparison
from tff_keyboard.evaluation.results.result import Evaluation
from tff_keyboard.evaluation.run_evaluation import evaluate_run, read_evaluation

__all__ = [
    "Comparison",
    "Evaluation",
    "FederatedEvaluator",
    "evaluate_client_data",
    "evaluate_run",
    "read_evaluation",
]
