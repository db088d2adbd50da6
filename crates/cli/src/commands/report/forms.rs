//! Writes the controls of an operator on the live page. A file and the page of a viewer have none.
//!
//! A form names the request that it makes: `data-path` with the names in braces that `data-run` and
//! `data-step` fill in. Its fields are members of the request; the script adds the author.

use maud::{Markup, html};

use plan_ledger::plan::{PlanVersion, RAISE, VALUE};
use plan_ledger::{Criterion, Run, RunStatus, StepNumber, StepStatus};

use plan_ledger_views::run_status_text;

use super::collect::{AskedQuestion, Collected};

/// The reader of the page.
#[cfg_attr(not(feature = "http"), expect(dead_code, reason = "only a server has a live page"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Readers of a file.
    File,
    /// Readers of the live page.
    Viewer,
    /// The controls of the run on the live page.
    Operator,
}

impl Audience {
    fn acts(self) -> bool {
        self == Self::Operator
    }
}

/// The name that the operator's acts have.
pub(super) fn author_form(audience: Audience) -> Markup {
    html! {
        @if audience.acts() {
            p.author {
                label for="by" { "Your name" }
                input id="by" type="text" autocomplete="name" maxlength="64" title="The ledger records who decided.";
            }
        }
    }
}

/// Pauses and unpauses the run.
pub(super) fn run_forms(run: &Run, audience: Audience) -> Markup {
    let is_open = !matches!(run.status, RunStatus::Ended(_));
    html! {
        @if audience.acts() && is_open {
            @if run.pause.is_some() {
                form.act data-path="/v1/runs/{run}/unpause" data-run=(run.name) {
                    button type="submit" { "\u{25b6} Resume" }
                }
            } @else {
                form.act data-path="/v1/runs/{run}/pause" data-run=(run.name) {
                    input type="text" name="reason" placeholder="reason" aria-label="Reason of the pause" size="12";
                    button type="submit" { "\u{275a}\u{275a} Pause" }
                }
            }
        }
    }
}

/// Answers a question: one button for each option.
pub(super) fn answer_forms(question: &AskedQuestion, audience: Audience) -> Markup {
    let (id, asked) = (question.id.0, &question.asked);
    let takes_value = asked.options.iter().any(|option| option == VALUE);
    html! {
        @if audience.acts() {
            form.act data-path=(format!("/v1/questions/{id}/answer")) data-shown=(asked.shown) {
                input type="text" name="note" placeholder="note" aria-label=(format!("Note for question {id}"));
                @for option in asked.options.iter().filter(|option| *option != VALUE && *option != RAISE) {
                    button type="submit" name="answer" value=(option) { (option) }
                }
            }
            @if takes_value {
                form.act data-path=(format!("/v1/questions/{id}/answer")) data-shown=(asked.shown) {
                    input type="text" name="answer" required placeholder="value" aria-label=(format!("Answer to question {id}"));
                    button type="submit" { "Answer" }
                }
            }
        }
    }
}

/// Approves or rejects the version that waits for review. The request names the hash that the page shows.
pub(super) fn review_forms(
    run: &Run,
    number: u32,
    version: &PlanVersion,
    audience: Audience,
) -> Markup {
    let waits = run.newest_proposal().is_some_and(|(newest, _)| newest == number);
    html! {
        @if audience.acts() && waits && !matches!(run.status, RunStatus::Ended(_)) {
            form.act data-path="/v1/runs/{run}/plan/reviews" data-run=(run.name) data-shown=(version.hash) {
                input type="text" name="note" placeholder="note" aria-label="Note of the review";
                button type="submit" name="review" value="approved" { "\u{2713} Approve " (version.hash.short()) }
                button type="submit" name="review" value="rejected" { "\u{2715} Reject" }
            }
        }
    }
}

/// Retries, skips, judges or resolves a step, as its status allows.
pub(super) fn step_forms(run: &Run, number: StepNumber, audience: Audience) -> Markup {
    let Some(state) = run.step(number) else { return html! {} };
    let (status, step) = (state.status, format!("#{number}"));
    let can_retry =
        matches!(status, StepStatus::Failed | StepStatus::Accepted | StepStatus::Skipped);
    let can_skip =
        status.is_open() && status != StepStatus::Dispatched || status == StepStatus::Failed;
    let has_text = |step: plan_ledger::plan::CompactStep<'_>| {
        step.acceptance().iter().any(|criterion| matches!(criterion, Criterion::Text(_)))
    };
    let can_judge = status == StepStatus::Reported && run.plan_step(number).is_some_and(has_text);
    let is_over = matches!(run.status, RunStatus::Ended(plan_ledger::Ending::Cancelled));
    if !audience.acts() || is_over {
        return html! {};
    }
    html! {
        @if can_retry {
            form.act data-path="/v1/runs/{run}/steps/{step}/retry" data-run=(run.name) data-step=(step) {
                @if status == StepStatus::Failed { button type="submit" { "\u{21bb} Retry" } }
                @else {
                    input type="text" name="reason" required placeholder="what was wrong" aria-label=(format!("Why step {step} is done again"));
                    button type="submit" { "\u{21bb} Do it again" }
                }
            }
        }
        @if can_skip {
            form.act data-path="/v1/runs/{run}/steps/{step}/skip" data-run=(run.name) data-step=(step) {
                input type="text" name="reason" required placeholder="reason" aria-label=(format!("Why step {step} is skipped"));
                button type="submit" { "\u{2013} Skip" }
            }
        }
        @if can_judge {
            form.act data-path="/v1/runs/{run}/steps/{step}/judge" data-run=(run.name) data-step=(step) {
                input type="text" name="evidence" placeholder="evidence" aria-label=(format!("Evidence for step {step}"));
                button type="submit" name="ruling" value="pass" { "\u{2713} Passes" }
                button type="submit" name="ruling" value="fail" { "\u{2715} Fails" }
            }
        }
        @if status == StepStatus::OutcomeUnknown {
            form.act data-path="/v1/runs/{run}/steps/{step}/answer" data-run=(run.name) data-step=(step) {
                input type="text" name="note" placeholder="evidence" aria-label=(format!("Evidence for step {step}"));
                button type="submit" name="answer" value="landed" { "\u{2713} It did its work" }
                button type="submit" name="answer" value="did-not-happen" { "\u{2715} It did nothing" }
            }
        }
    }
}

/// The runs of the ledger, to go to another one.
pub(super) fn runs_list(of: &Collected, audience: Audience) -> Markup {
    html! {
        @if audience != Audience::File && of.runs.len() > 1 {
            section id="runs" {
                h2 { "Runs of this ledger" }
                ul {
                    @for run in of.runs.iter().take(200) {
                        li {
                            a.run href=(format!("#run={}", run.name)) data-go=(run.name) { (run.name) }
                            " \u{b7} " (run_status_text(run.status).1)
                            " \u{b7} " (run.accepted) " of " (run.steps) " accepted"
                        }
                    }
                }
            }
        }
    }
}
