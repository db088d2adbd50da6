//! What the text about executing plans demands, sentence by sentence, with the tests that show it. The
//! tests are in this folder, beside it, or with the library.

use std::path::Path;

/// A part of the text.
struct Part {
    name: &'static str,
    /// Each demand with the names of its tests.
    demands: &'static [(&'static str, &'static [&'static str])],
}

const PARTS: [Part; 11] = [
    Part {
        name: "inputs and planning",
        demands: &[
            (
                "a plan is typed, not prose: the step record with its eleven fields",
                &[
                    "s16_step_record_drawn_as_a_tree_is_a_step",
                    "s16_step_records_in_a_json_list_keep_their_meaning",
                    "s16_signal_with_bounds_is_checked",
                    "s16_inspect_step_shows_every_field_of_the_record",
                ],
            ),
            (
                "the two plans as they are printed",
                &[
                    "s11_step_lines_with_labels_are_steps",
                    "s11_step_lines_without_labels_are_steps",
                    "s23_printed_loan_runs_to_its_decision",
                    "s19_printed_coding_agent_finds_the_right_file_despite_kills",
                ],
            ),
            (
                "a run gets its inputs, and none is missing",
                &[
                    "s2_run_gets_its_inputs_and_they_are_on_record",
                    "s2_missing_input_is_refused_before_anything_is_written",
                    "s2_inputs_have_types_and_names",
                ],
            ),
            (
                "a goal becomes a plan, completed from a registry of tools, and waits for a review",
                &[
                    "s20_goal_becomes_a_plan_that_waits_for_review",
                    "s20_first_plan_is_linted",
                    "s20_unusable_plans_are_asked_again_and_then_refused",
                ],
            ),
            (
                "later versions are completed, too",
                &["s20_later_versions_are_completed_and_their_planner_is_charged"],
            ),
            (
                "a planner only plans",
                &[
                    "s20_planner_that_changes_files_is_reported",
                    "s20_planner_that_sets_variables_is_reported",
                ],
            ),
            (
                "planner, judge and decider count in the budget",
                &[
                    "s20_later_versions_are_completed_and_their_planner_is_charged",
                    "s20_judge_is_charged",
                    "s20_decider_is_charged",
                ],
            ),
        ],
    },
    Part {
        name: "routing",
        demands: &[
            (
                "owners and tags select the steps of a worker",
                &[
                    "s12_owner_and_tag_select_the_steps_of_a_worker",
                    "s23_runner_leaves_the_steps_of_people_and_of_other_roles",
                    "s25_racing_workers_get_only_their_own_steps",
                ],
            ),
            (
                "a step of a person is for no agent",
                &["s23_step_of_a_person_is_never_given_to_an_agent"],
            ),
            (
                "a claim of another role's step is refused by name",
                &["s12_claim_of_another_roles_step_is_refused_by_name"],
            ),
            (
                "workers serve every run, also a hundred",
                &[
                    "s25_work_without_a_run_serves_every_run",
                    "s25_hundred_workflows_share_a_pool_of_workers",
                ],
            ),
        ],
    },
    Part {
        name: "people",
        demands: &[
            (
                "a person answers approved, denied or a value, which sets a variable",
                &[
                    "s23_printed_loan_runs_to_its_decision",
                    "s23_score_of_a_person_is_checked_and_becomes_a_variable",
                ],
            ),
            (
                "the question has its context, and the run continues after hours and kills",
                &[
                    "s23_printed_loan_survives_kills_in_its_middle",
                    "s23_loan_is_approved_by_the_answer_of_a_person",
                    "waiting_gate_costs_nothing_and_survives_restarts",
                ],
            ),
            (
                "48 hours, then the manager",
                &[
                    "s11_step_lines_with_labels_are_steps",
                    "gate_escalates_to_a_second_person_at_its_deadline",
                ],
            ),
            (
                "a review shows steps, criteria, costs and what is done again; the planner gets the note",
                &[
                    "s27_review_shows_steps_criteria_and_what_is_done_again",
                    "n6_what_is_done_again_is_said_before_and_is_what_is_done",
                ],
            ),
            (
                "a person has accepted work done again",
                &["s14_accepted_step_is_done_again_with_what_follows"],
            ),
        ],
    },
    Part {
        name: "failures",
        demands: &[
            (
                "transient: retry with backoff",
                &[
                    "s18_transient_failure_backs_off_by_default",
                    "s23_printed_loan_runs_to_its_decision",
                    "jittered_backoff_is_deterministic",
                ],
            ),
            (
                "deterministic: check preconditions, replan earlier steps",
                &[
                    "s18_deterministic_failure_asks_for_a_plan_upstream",
                    "deterministic_failure_asks_for_a_plan_from_the_step_that_set_its_input",
                ],
            ),
            (
                "assumption broken: replan the affected branch",
                &[
                    "s19_diagnosis_is_done_again_with_the_reason",
                    "s19_printed_coding_agent_finds_the_right_file_despite_kills",
                ],
            ),
            (
                "budget exhausted: fallback or a person",
                &[
                    "each_class_and_disposition_has_its_rule",
                    "s24_exhausted_budget_leads_to_a_simpler_rest",
                ],
            ),
            (
                "unknown: a person, with the full context; other branches continue",
                &[
                    "s18_unexpected_flag_is_put_to_a_person_with_its_context",
                    "s18_other_branches_continue_while_a_person_is_asked",
                    "unknown_failure_is_put_to_a_person_unless_the_step_or_the_run_says_otherwise",
                ],
            ),
            (
                "rules see the failure, the output, variables and the rest of the budget",
                &[
                    "s18_rules_see_output_variables_and_budget",
                    "s18_rest_of_the_budget_selects_the_cheaper_way",
                ],
            ),
            (
                "a command decides, and its decision is on record",
                &["s20_decider_classifies_and_decides", "s20_decider_is_charged"],
            ),
            ("lost attempts count", &["lost_attempts_count_towards_the_limit"]),
            (
                "the fallback: another step, or a cached value up to its age",
                &[
                    "fallback_variable_is_used_up_to_its_maximum_age",
                    "s23_fallback_owner_hands_a_step_to_a_person",
                ],
            ),
        ],
    },
    Part {
        name: "replans",
        demands: &[
            (
                "precondition permanently false: abort",
                &["s19_precondition_that_is_permanently_false_aborts"],
            ),
            (
                "root cause wrong: replan from the diagnosis, with the reason",
                &[
                    "s19_diagnosis_is_done_again_with_the_reason",
                    "s19_printed_coding_agent_finds_the_right_file_despite_kills",
                ],
            ),
            (
                "scope change: add a branch, preserve completed work",
                &[
                    "s19_printed_loan_gets_a_branch_when_the_scope_changes",
                    "s19_people_request_plans_with_a_kind",
                ],
            ),
            (
                "budget exhausted with work remaining: simplify or ask",
                &["s24_exhausted_budget_leads_to_a_simpler_rest"],
            ),
            (
                "new evidence: an investigation",
                &[
                    "s19_printed_loan_is_investigated_on_new_evidence",
                    "s15_receipt_names_the_step_and_the_kind_of_a_replan",
                ],
            ),
            (
                "the replan record by name",
                &[
                    "s19_printed_loan_is_replanned_when_the_bureau_stays_down",
                    "s19_diagnosis_is_done_again_with_the_reason",
                ],
            ),
            ("a worker asks for a plan from a step", &["s15_worker_requests_a_plan_from_a_step"]),
            (
                "at most 3 replans with a planner, and the limit is shown",
                &[
                    "s19_diagnosis_is_done_again_with_the_reason",
                    "planner_is_not_asked_beyond_the_replan_limit",
                    "s15_broken_assumption_without_allowed_replans_names_what_is_missing",
                ],
            ),
            (
                "reasons, authors, sources and confidence are kept",
                &["s28_every_version_keeps_its_author_source_and_confidence"],
            ),
        ],
    },
    Part {
        name: "time, budgets, signals",
        demands: &[
            (
                "an estimate is a field; twice of it is reported",
                &["s24_step_that_takes_twice_its_estimate_is_reported"],
            ),
            (
                "a stall is detected",
                &["s24_stall_is_detected", "stalled_run_is_reported_after_half_an_hour"],
            ),
            (
                "80 % of a budget and overruns are reported",
                &["s24_used_budget_is_reported_outside_of_run"],
            ),
            ("a limit of money does not limit tokens", &["s24_money_limit_does_not_limit_tokens"]),
            (
                "a cap's answer says what really holds",
                &[
                    "s4_answer_of_cap_says_what_holds",
                    "s4_answer_of_cap_names_the_lower_cap_of_the_ledger_and_of_plans",
                ],
            ),
            (
                "the signals of the text, healthy, degrading and broken",
                &[
                    "s22_coding_agent_classified_right_kept_half_and_solved_its_problem",
                    "s22_broken_manager_is_marked",
                ],
            ),
            (
                "a plan of more than 20 steps is warned about, and can be extended instead",
                &[
                    "s25_lint_reports_everything_in_one_pass",
                    "planner_extends_the_plan_until_it_is_complete",
                ],
            ),
        ],
    },
    Part {
        name: "staleness",
        demands: &[
            (
                "people are told, with a policy",
                &[
                    "s28_files_that_changed_since_the_plan_are_reported",
                    "s28_views_name_files_that_changed_since_the_plan",
                ],
            ),
            (
                "files outside of a step's list are reported",
                &[
                    "s28_files_outside_of_a_list_are_reported",
                    "s28_files_outside_of_a_list_are_reported_by_work",
                    "s28_files_of_other_workers_are_not_outside_of_a_list",
                ],
            ),
        ],
    },
    Part {
        name: "context",
        demands: &[(
            "a worker is told what is done, within bounds",
            &["s12_worker_is_told_what_is_done", "s12_summary_of_what_is_done_is_bounded"],
        )],
    },
    Part {
        name: "views",
        demands: &[
            (
                "three views of one state, in the middle of a run",
                &[
                    "s17_s21_views_show_a_run_in_the_middle",
                    "s23_printed_loan_runs_to_its_decision",
                ],
            ),
            (
                "the execution state by name, in text and JSON",
                &[
                    "s17_s21_views_show_a_run_in_the_middle",
                    "execution_state_is_at_the_step_that_waits",
                    "execution_state_has_its_fields",
                ],
            ),
            (
                "the debug view has decisions, payloads, changes, replans and costs",
                &[
                    "s17_s21_views_show_a_run_in_the_middle",
                    "s19_printed_coding_agent_finds_the_right_file_despite_kills",
                ],
            ),
            (
                "within 500 ms of the end of a step",
                &[
                    "s21_view_is_updated_within_500_ms_of_the_end_of_a_step",
                    "s21_view_has_the_end_of_a_step_before_the_next_one_begins",
                ],
            ),
        ],
    },
    Part {
        name: "drill",
        demands: &[
            (
                "canned outputs in the plan or in a file",
                &[
                    "s9_loan_is_drilled_with_canned_outputs",
                    "s9_rejected_canned_output_ends_the_drill",
                ],
            ),
            (
                "no steps are no success, and no false alarm",
                &["n11_drill_of_every_crash_takes_typed_criteria_and_is_never_vacuous"],
            ),
            ("every crash of the loan", &["s9_printed_loan_is_drilled_with_every_crash"]),
        ],
    },
    Part {
        name: "the artifact",
        demands: &[
            (
                "the plan of a run is written back, with marks, next action and decisions",
                &[
                    "s28_plan_of_a_run_is_written_back_with_its_progress",
                    "s28_plan_of_a_run_is_written_in_the_forms_of_tools",
                    "s29_next_session_starts_from_the_plan_artifact",
                ],
            ),
            (
                "every form reads back, and phases that overlap are kept",
                &[
                    "s28_every_form_reads_back_as_the_same_plan_and_progress",
                    "s29_plan_artifact_is_written_back_as_it_was_read",
                    "s29_overlapping_phases_are_written_and_read",
                ],
            ),
            (
                "what a form has no place for is named",
                &["s28_fields_that_a_form_has_no_place_for_are_named"],
            ),
        ],
    },
];

#[test]
fn every_demand_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut code = String::new();
    let mut folders = vec![root.join("tests/cli"), root.join("src/plan/tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                code.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    for Part { name, demands } in PARTS {
        for (demand, tests) in demands {
            assert!(!tests.is_empty(), "{name}: {demand}");
            for test in *tests {
                assert!(code.contains(&format!("fn {test}(")), "{name}: {demand}: no test {test}");
            }
        }
    }
}
