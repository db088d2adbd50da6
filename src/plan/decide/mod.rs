//! Decides commands: returns the events that a command produces, or a rejection.
//!
//! [`crate::plan::validate`] checks a plan before a draft is made. This module only rejects plans
//! that would corrupt the state.
//!
//! Invariants:
//! - The state is only read. A rejected command leaves no event, except a late receipt, which is
//!   recorded as refused.
//! - The clock is an argument.
//! - Any input produces events or a [`Rejection`], never a panic.

mod activation;
mod answers;
mod ask;
pub(crate) mod attempts;
mod budget;
pub(crate) mod dispatch;
mod effects;
mod fallbacks;
mod fork;
mod lookup;
mod replans;
mod runs;
mod timers;
mod versions;

use crate::plan::command::Command;
use crate::plan::event::Event;
use crate::plan::rejection::Rejection;
use crate::plan::state::State;
use crate::plan::value::ids::{AttemptToken, Timestamp};
use crate::plan::value::token::Proof;

/// Maximum number of events that a command produces, which form one atomic batch in the log.
pub const MAX_BATCH_EVENTS: usize = 65_000;

/// The events that a command produces, or why it is rejected. [`crate::plan::execute()`] fills in the
/// references to other records (`previous` of step events, `request` of activations).
pub fn decide(state: &State, now: Timestamp, command: &Command) -> Result<Vec<Event>, Rejection> {
    let events = decide_any(state, now, command)?;
    if events.len() > MAX_BATCH_EVENTS {
        return Err(Rejection::TooManyEvents { events: events.len(), limit: MAX_BATCH_EVENTS });
    }
    Ok(events)
}

fn decide_any(state: &State, now: Timestamp, command: &Command) -> Result<Vec<Event>, Rejection> {
    match command {
        Command::StartRun { name, policy, reason, draft, inputs } => {
            versions::start_run(state, now, (name, *policy), reason, (draft, inputs))
        }
        Command::ProposePlan { run, draft, reason, trigger, approval } => {
            let why = versions::ProposalContext {
                reason,
                trigger: trigger.as_ref(),
                approval: *approval,
            };
            versions::propose(state, now, *run, draft, &why)
        }
        Command::ReviewPlan { run, version, hash, review, by, note } => {
            let review =
                versions::VersionReview { version: *version, hash: *hash, review: *review };
            versions::review(state, now, *run, &review, (by, note))
        }
        Command::ApproveCommands { run, version, commands } => {
            versions::approve_commands(state, *run, *version, commands)
        }
        Command::Dispatch { run, step, worker, route, lease, secret, process } => {
            let claimant = dispatch::Claimant { worker, lease: *lease, secret: *secret, process };
            dispatch::dispatch(state, now, *run, (*step, route), &claimant)
        }
        Command::Renew { token, proof, lease } => {
            expect_proof(state, *token, *proof)?;
            attempts::renew(state, now, *token, *lease)
        }
        Command::ReportLost { token, proof, cause, detail } => {
            expect_proof(state, *token, *proof)?;
            attempts::report_lost(state, *token, *cause, detail)
        }
        Command::RecordReceipt { token, proof, receipt } => {
            expect_proof(state, *token, *proof)?;
            attempts::record_receipt(state, *token, receipt)
        }
        Command::Judge { token, verdicts } => attempts::judge(state, *token, verdicts),
        Command::Tick => Ok(timers::tick(state, now)),
        Command::JudgePlan { run, verdicts } => runs::judge_plan(state, *run, verdicts),
        Command::MarkDoneBefore { run, steps } => runs::mark_done_before(state, *run, steps),
        Command::Skip { run, step, by, reason } => runs::skip(state, *run, *step, by, reason),
        Command::ResolveOutcome { run, step, finding, by, evidence } => {
            runs::resolve_outcome(state, *run, *step, *finding, (by, evidence))
        }
        Command::RetryFailed { run, by } => runs::retry_failed(state, *run, by),
        Command::Retry { run, step, by } => runs::retry(state, *run, *step, by),
        Command::SetVariable { run, name, value, expected_version, origin } => {
            runs::set_variable(state, *run, (name, value), *expected_version, origin)
        }
        Command::SetCap { scope, limit, by } => runs::set_cap(state, scope, *limit, by),
        Command::ReportHelper { run, role, by, cost, duration } => {
            budget::report_helper(state, *run, (*role, by), *cost, *duration)
        }
        Command::CheckBudget { run } => budget::check_for_helper(state, now, *run),
        Command::CancelRun { run, by, reason } => runs::cancel(state, *run, by, reason),
        Command::IntendEffect { token, proof, effect, key } => {
            expect_proof(state, *token, *proof)?;
            effects::intend(state, *token, effect, key)
        }
        Command::CommitEffect { token, proof, key } => {
            expect_proof(state, *token, *proof)?;
            effects::commit(state, *token, key)
        }
        Command::Answer { question, answer, by, note, shown } => {
            let reply = answers::Reply { answer, by, note };
            answers::answer(state, now, *question, *shown, &reply)
        }
        Command::SetBudget { run, limits, by } => budget::set_budget(state, now, *run, *limits, by),
        Command::CorrectCost { token, cost, charged, by } => {
            budget::correct(state, *token, *cost, *charged, by)
        }
        Command::Pause { run, by, reason } => budget::pause(state, *run, by, reason),
        Command::PauseByRunner { run, reason } => budget::pause_by_runner(state, *run, reason),
        Command::EndDelay { run, step, by } => timers::end_delay(state, *run, *step, by),
        Command::Unpause { run, by } => budget::unpause(state, now, *run, by),
        Command::RequestReplan { run, trigger, from, reason } => {
            replans::request(state, *run, trigger, *from, reason)
        }
        Command::SetFailureSettings { run, settings, by } => {
            replans::set_failure_settings(state, *run, *settings, by)
        }
        Command::Redo { run, step, by, reason } => {
            versions::redo(state, now, *run, *step, (by, reason))
        }
        Command::WithdrawReplan { run, by, reason } => replans::withdraw(state, *run, by, reason),
        Command::DecideFailure { run, step, decision, class, from, rule, reason, by } => {
            let decided = (decision, *class, *from);
            replans::decide_failure(state, now, *run, *step, decided, (rule, reason, by))
        }
        Command::ForkRun { name, parent, at_seq, chain, by } => {
            fork::fork(state, now, (name, by), parent, (*at_seq, *chain))
        }
    }
}

/// Rejects a command about an attempt if the sender does not know the secret of the attempt.
fn expect_proof(state: &State, token: AttemptToken, proof: Proof) -> Result<(), Rejection> {
    if state.is_proven(token, proof) { Ok(()) } else { Err(Rejection::StaleToken(token)) }
}
