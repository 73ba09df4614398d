"""Files that train, compile much or start programs: the quick run has their witnesses alone.

Whatever else is in such a file is `slow`, as if it was marked there. A witness is a test function
without its `test_`, or the id of a case. Single tests of other files are marked where they stand.
"""

import pytest

WITNESSES = {
    # Trainings, in this process or as commands.
    "test_attack_task.py": (
        "names_are_those_of_the_library",
        "variants_drop_protection_where_there_is_some",
        "verdict",
        "wrong_flags_are_one_line",
        "a_fixed_nonce_is_refused_before_the_first_training",
    ),
    "test_audit_tail_task.py": (
        "wrong_flags_are_one_line",
        "no_model_is_bad_input",
        "different_vocabularies_are_refused",
        "the_fewest_texts_are_those_of_the_smallest_tail",
        "a_tail_without_a_mean_is_no_estimate",
        "one_direction_without_estimate_leaves_the_pair_without",
        "two_models_give_figures_a_file_and_the_claim",
    ),
    "test_central_on_nodes.py": ("a_plan_says_what_the_round_has",),
    "test_evaluation_on_nodes.py": (),
    "test_federated.py": (
        "run_directory_holds_what_later_tasks_need",
        "training_lowers_the_loss",
        "a_changed_config_is_refused",
        "evaluate_reports_people_never_trained_on",
        "missing_workdir_is_a_usage_error",
        "missing_store_is_one_line",
    ),
    "test_fine_tuning.py": (
        "stores_with_other_vocabularies_are_refused",
        "transfer_refuses_what_it_would_ignore",
        "merge_vocabulary_explains_wrong_use",
    ),
    "test_golden_run.py": (),
    "test_optimisation.py": ("what_does_not_go_together_is_refused_with_the_reason",),
    "test_train_run.py": (),
    "test_canary_audit.py": (),
    "test_projection.py": (),
    # Processes of TFF, whose parts have quick tests of their own.
    "test_battery.py": (
        "quick_ones_are_there",
        "rule fedatt",
        "privacy gaussian_adaptive, noisy",
        "a factor and no guard",
    ),
    "test_build_aggregator.py": (
        "a_few_broken_clients_never_reach_the_model",
        "clients_that_agree_are_followed",
        "variable_names_reach_the_layers",
        "options_that_do_not_fit_the_cohort_are_refused",
    ),
    "test_build_process.py": (),
    "test_client_delivery.py": (
        "every_client_once_and_each_part_from_large_to_small",
        "equal_sizes_stay_in_order",
        "two_cores_are_done_nearly_as_early_as_possible",
        "a_process_that_is_none_of_tffs_gets_its_clients_one_by_one",
    ),
    "test_compiler.py": (),
    "test_execution.py": ("rejects", "computes_what_numpy_says", "workers_do_not_change_a_bit"),
    "test_fedmed_process.py": (
        "losses_of_steps_match_numpy",
        "wrong_arguments_are_named",
        "the_share_of_attackers_is_right_and_stable",
    ),
    "test_lwf.py": (
        "without_training_the_loss_is_the_ordinary_one",
        "rejects_a_weight_outside_the_unit_interval",
    ),
    "test_server_here.py": (),
    "test_server_transfer.py": (
        "one_step_is_that_of_equation_4",
        "text_that_is_not_there_is_refused",
        "soft_loss_is_that_of_the_first_and_last_tenth",
    ),
    "test_state_vector.py": (),
    "test_training_loop.py": (
        "computes_what_the_process_says",
        "resume_is_exact",
        "more_rounds_can_be_added",
        "a_finished_training_computes_nothing",
        "damaged_newest_checkpoint",
        "best_round_and_early_stop",
        "rejected_rounds_are_counted_and_bounded",
        "a_signal_ends_the_round_that_is_computed",
        "a_signal_between_checkpoints_loses_no_round",
        "a_signal_in_the_first_round",
        "a_signal_before_a_coroutine_is_awaited_is_no_warning",
        "full_disk_loses_nothing",
        "a_signal_waits_until_results_are_written",
        "an_ignored_signal_stays_ignored",
        "lost_metrics_are_computed_again",
        "errors_of_the_cohort_source_come_out",
        "two_metrics_of_one_name",
        "timings_add_up",
        "rejects",
    ),
    "test_validation.py": ("in_this_process",),
    # Programs that are started: each imports TensorFlow anew, or is a browser.
    "test_native_compiler.py": (),
    "test_runtime_litert.py": (),
    "test_two_nodes.py": (),
    "test_play.py": (
        "strip_follows_every_key",
        "a_sentence_with_picked_suggestions",
        "a_space_corrects_and_backspace_takes_that_back",
        "who_has_no_cookie_sees_nothing",
        "learns_what_is_sent_and_forgets_what_is_clicked",
    ),
    "test_runner.py": (
        "trains_each_once_and_what_is_waited_for_first",
        "a_study_that_is_killed_leaves_no_training",
        "a_failure_stops_what_waits_for_it_alone",
    ),
    # Exports, and what opens and judges them.
    "test_export_graphs.py": ("int8-rows", "another_model_is_rejected"),
    "test_fuzzed_exports.py": (),
    "test_gate.py": ("sound_files_pass", "little_text_is_no_verdict"),
    "test_parity.py": (
        "sound_files_pass",
        "a_wrong_gate_is_caught",
        "recall_outside_a_tenth_of_a_point_fails",
        "one_word_of_little_text_is_no_failure",
        "large_logit_errors_fail",
        "low_agreement_fails_though_recall_is_the_same",
        "the_figures_come_with_the_failure",
        "a_strip_that_contradicts_the_logits_is_no_loss",
        "logits_that_are_all_alike_have_no_spread_to_compare_with",
    ),
    # Reports and comparisons of models that are trained for them.
    "test_compare_task.py": (
        "compares_models_of_all_kinds",
        "an_exported_file_is_compared_word_by_word",
        "refuses_with_one_line",
        "a_release_gate_stays_shut_for_what_is_worse",
    ),
    "test_private_words.py": (
        "common_words_stay_and_those_of_one_person_do_not",
        "too_few_people_for_the_price",
        "exact_counts_may_not_decide_beside_noisy_ones",
    ),
    "test_report_task.py": (
        "a_comparison_has_all_sections",
        "loads_nothing_from_anywhere",
        "shows_no_message_of_the_corpus",
        "refuses_with_one_line",
    ),
    # The computations of the session's worker, one after another.
    "test_what_tests_leave.py": (),
}


def is_witness(item):
    """Whether the quick run has a test of pytest's, were it not marked."""
    kept = WITNESSES.get(item.path.name)
    if kept is None:
        return True
    name = getattr(item, "originalname", item.name).removeprefix("test_")
    return name in kept or (hasattr(item, "callspec") and item.callspec.id in kept)


def mark(items):
    """Marks what is no witness as slow."""
    for item in items:
        if not is_witness(item):
            item.add_marker(pytest.mark.slow)
