"""Sixteen mistakes that tests once let pass: each is made again, and its test must fail.

python -m tools.named_mutants --out=build/named_mutants.json
python -m tools.named_mutants --only uniform_ignored trim_none

A review changed one line of the code at a time (2026-11-21, 53 mutants); these lived. A mutant is
the text of a line, what takes its place, and the test that owes it a failure.
`tests/tools/test_mutants.py` checks that lines and tests are still there. The exit code is 5
when one lives.
"""

import argparse
import dataclasses
import json
import pathlib
import sys

from tools import mutation
from tools.mutants import Mutant


@dataclasses.dataclass(frozen=True)
class NamedMutant:
    """One mistake.

    Attributes:
      name: The mutant's name in the review.
      path: The file.
      line: Text that is in the file once.
      becomes: What takes its place.
      test: Node id of the test that fails.
    """

    name: str
    path: str
    line: str
    becomes: str
    test: str

    def mutant(self) -> Mutant:
        """The changed file, as `tools.mutation` takes it.

        Raises:
          ValueError: The text is not in the file once.
        """
        source = (mutation.ROOT / self.path).read_text(encoding="utf-8")
        if source.count(self.line) != 1:
            raise ValueError(
                f"{self.path}: {self.line!r} is there {source.count(self.line)} times."
            )
        number = source[: source.index(self.line)].count("\n") + 1
        changed = source.replace(self.line, self.becomes)
        return Mutant(self.path, number, self.name, self.line, lambda: changed)


_INPUTS = "tests/federated/learning/test_client_inputs.py::test_"
_WEIGHS = (
    "tests/federated/algorithms/test_build_process.py::test_a_client_weighs_what_the_config_says"
)
_COUNT = (
    "tests/federated/aggregation/private/test_private_mean.py"
    "::test_the_count_of_unclipped_clients_has_noise_of_its_own"
)

NAMED = (
    NamedMutant(
        "dp_count_noise_dropped",
        "tff_keyboard/federated/aggregation/private/noised_sum.py",
        "count += tf.cast(self._count_stddev * noise[-1], count.dtype)",
        "pass",
        _COUNT,
    ),
    NamedMutant(
        "dp_count_same_seed_as_delta",
        "tff_keyboard/federated/aggregation/private/noised_sum.py",
        "self._count_stddev * noise[-1]",
        "self._count_stddev * noise[0]",
        _COUNT,
    ),
    NamedMutant(
        "cifg_bias_init",
        "tff_keyboard/models/cifg.py",
        "per_gate_constants(units, [-1.0, 0.0, 0.0])",
        "per_gate_constants(units, [0.0, 0.0, 0.0])",
        "tests/models/test_models.py::test_a_new_cifg_forgets_little",
    ),
    NamedMutant(
        "ledger_chain_skipped",
        "tff_keyboard/privacy/ledger/ledger.py",
        'and content.get("previous") == previous',
        "and True",
        "tests/privacy/ledger/test_ledger.py::test_a_line_of_another_ledger_does_not_fit",
    ),
    NamedMutant(
        "validate_on_train",
        "tff_keyboard/federated/learning/validation.py",
        "store, POPULATION, config.evaluation, max_length=config.data.max_length",
        'store, "train", config.evaluation, max_length=config.data.max_length',
        "tests/federated/learning/test_validation.py::test_federated",
    ),
    NamedMutant(
        "evaluate_on_train",
        "tff_keyboard/evaluation/run_evaluation.py",
        "typed_text.of_population(store, population)",
        'typed_text.of_population(store, "train")',
        "tests/evaluation/test_run_evaluation.py::test_evaluates_the_people_it_was_asked_for",
    ),
    NamedMutant(
        "hits_eos_allowed_top1",
        "tff_keyboard/evaluation/counts/tensorflow_sums.py",
        '"hits_at_1": hits(1, special),',
        '"hits_at_1": hits(1, but_eos),',
        "tests/evaluation/statistics/test_sums.py::test_hits_match_python_on_any_scores",
    ),
    NamedMutant(
        "train_line_swapped",
        "tff_keyboard/training/round_lines.py",
        "{recall(1)}{recall(3) if with_top_3 else ''}",
        "{recall(3)}{recall(1) if with_top_3 else ''}",
        "tests/training/test_round_lines.py::test_figures_of_a_validation",
    ),
    NamedMutant(
        "evaluate_label_swapped",
        "tff_keyboard/evaluation/metrics/metric_table.py",
        'Metric("recall_at_1_no_eos", HITS_AT_1, _WORDS_TYPED, "top-1 recall"',
        'Metric("recall_at_1_no_eos", HITS_AT_3, _WORDS_TYPED, "top-1 recall"',
        "tests/report/test_comparison_text.py"
        "::test_an_evaluation_has_every_figure_behind_its_label",
    ),
    NamedMutant(
        "weight_unit_config_ignored",
        "tff_keyboard/federated/algorithms/build_process.py",
        'return "examples" if config.aggregation.client_weighting == "examples" else "tokens"',
        'return "tokens"',
        f"{_WEIGHS}[examples-weights1]",
    ),
    NamedMutant(
        "uniform_ignored",
        "tff_keyboard/federated/algorithms/build_process.py",
        'uniform_weights=config.aggregation.client_weighting == "uniform",',
        "uniform_weights=False,",
        f"{_WEIGHS}[uniform-weights0]",
    ),
    NamedMutant(
        "trim_none",
        "tff_keyboard/federated/aggregation/robust_mean.py",
        "return tf.cast(tf.floor(exact + 1e-9), tf.int32)  # 0.3 * 10 is 2.999...",
        "return 0 * tf.cast(exact, tf.int32)",
        "tests/federated/aggregation/test_robust_mean.py::test_trimmed_mean_equals_scipy",
    ),
    NamedMutant(
        "epochs_ignored",
        "tff_keyboard/federated/learning/client_inputs.py",
        "epochs=config.client.epochs,",
        "epochs=1,",
        f"{_INPUTS}every_epoch_goes_over_the_same_messages_in_another_order",
    ),
    NamedMutant(
        "left_out_ignored",
        "tff_keyboard/federated/learning/client_inputs.py",
        "for index in cohort.reporting if index != left_out]",
        "for index in cohort.reporting]",
        f"{_INPUTS}who_is_left_out_is_selected_but_has_no_part",
    ),
    NamedMutant(
        "same_batches_every_round",
        "tff_keyboard/federated/learning/client_inputs.py",
        "return self._config.train.seed, round_num, index",
        "return self._config.train.seed, 1, index",
        f"{_INPUTS}a_client_draws_anew_in_every_round_and_the_same_again",
    ),
    NamedMutant(
        "final_model_last",
        "tff_keyboard/training/train_run.py",
        "weights = result.best_model_weights if is_best else result.model_weights",
        "weights = result.model_weights",
        "tests/training/test_train_run.py::test_the_model_is_that_of_the_round_the_config_asks_for",
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[mutant.name for mutant in NAMED])
    parser.add_argument("--out", type=pathlib.Path, help="JSON file; printed in any case")
    arguments = parser.parse_args()
    from tff_keyboard.host import quiet

    quiet.import_tensorflow_federated()
    chosen = [named for named in NAMED if not arguments.only or named.name in arguments.only]
    tests = sorted({named.test for named in chosen})
    if mutation.is_killed(Mutant("tools/nothing.py", 0, "", "", str), tests):
        sys.exit("The tests fail without any mutant. See: pytest " + " ".join(tests))
    rows = []
    for named in chosen:
        killed = mutation.is_killed(named.mutant(), [named.test])
        rows.append(
            {"mutant": named.name, "file": named.path, "test": named.test} | {"killed": killed}
        )
        print(f"{'killed' if killed else 'ALIVE':7} {named.name}  by {named.test}", flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    if not all(row["killed"] for row in rows):
        sys.exit(5)


if __name__ == "__main__":
    main()
