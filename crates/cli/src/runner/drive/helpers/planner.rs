//! Planners: commands that write a new plan version when a replan is requested
//! (`format/hand-off.md`).
//!
//! The loop sends the run's state to the planner as JSON and proposes the plan that it prints,
//! completed from the registry of tools.
//!
//! Invariants:
//! - A planner runs only while a replan request is open and no proposed version awaits review.
//! - An unusable reply is recorded in the variable [`PLANNER`] and is part of the planner's next
//!   input. After [`REPLIES_MAX`] unusable replies to one request, counted across runners, the
//!   request waits for a person.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};

use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::plan::{Origin, PlanVersion, Provenance, ReplanRequest, Variable};
use plan_ledger::{
    ApprovalPolicy, Error, Json, Plan, ReplanTrigger, Result, Ruling, Run, RunStatus,
};

use crate::runner::check::{Check, CheckAnswer, Subject};
use crate::runner::drive::checks::first_line;
use crate::runner::drive::state::{Drive, PlannerWatch};
use crate::runner::helpers::approved_commands::approved_commands;
use crate::runner::helpers::commands::{PLANNER_PREFIX, PlannedWork, Planner, TIMEOUT_SECONDS};
use crate::runner::helpers::folder_state::FolderState;
use crate::runner::helpers::planner_request::replan_request;
use crate::runner::progress::{Progress, StopRequest};

/// The variable that holds the unusable replies to the open request.
const PLANNER: &str = "ledger.planner";

/// The maximum number of replies of a planner to one request.
const REPLIES_MAX: usize = 3;

/// The unusable replies of a planner.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Unusable {
    /// The sequence number of the request's record.
    request: u64,
    /// The problem with each reply.
    problems: Vec<String>,
}

/// The reply that a planner printed.
enum PlannerReply {
    Plan(Box<PlannedWork>),
    /// The planner has no new plan, for this reason.
    NoMore(String),
}

/// Whether a planner wrote this plan version.
pub(crate) fn is_by_planner(version: &PlanVersion) -> bool {
    version.reason.starts_with(PLANNER_PREFIX)
}

/// Whether a runner with a planner would ask it for a new version now.
pub(crate) fn may_ask_planner(run: &Run) -> bool {
    let request = run.request.as_ref().filter(|request| may_be_asked(run, request));
    request
        .is_some_and(|request| reason_not_to_ask(run, request, &unusable(run, request)).is_none())
}

impl Drive<'_> {
    /// Start the planner if a replan request is open.
    pub(crate) fn queue_planner(&mut self) {
        let Some(planner) = self.helpers.planner.clone() else { return };
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        let Some(request) = run.request.as_ref().filter(|it| may_be_asked(run, it)) else { return };
        if self.planning.asked.is_some() || self.planning.left.contains(&request.seq) {
            return;
        }
        let unusable = unusable(run, request);
        if let Some(why) = reason_not_to_ask(run, request, &unusable) {
            self.planning.left.insert(request.seq);
            let note = format!("{} is not started for this replan request: {why}", planner.name());
            self.note(None, note);
            return;
        }
        self.planning.asked = Some(request.seq);
        let environment = planner.environment(&run.name);
        self.planning.watch = self.workers.shared_folder().map(|ledger| PlannerWatch {
            files: FolderState::of_working_folder(ledger),
            dispatched: self.session.dispatched,
            was_alone: self.running.is_empty(),
            since: state.time,
        });
        let timeout = run.plan().and_then(|plan| plan.header().defaults.timeout_seconds);
        let check = Check {
            subject: Subject::Replan(run.id),
            criterion: 0,
            command: planner.command,
            answer: CheckAnswer::Reply,
            environment,
            output: Json::from(replan_request(run, request, PLANNER, &unusable.problems)),
            timeout_seconds: timeout.or(Some(TIMEOUT_SECONDS)),
        };
        self.queued.push_front((None, check));
    }

    /// Propose the plan that the planner printed, or record the reply as unusable.
    pub(crate) fn handle_planner_reply(&mut self, ruling: Option<Ruling>, printed: &str) {
        let Some(request) = self.planning.asked.take() else { return };
        let Some(planner) = self.helpers.planner.clone() else { return };
        self.report_changes(&planner);
        let taken = match ruling {
            // The planner was stopped with the loop; the next runner starts it again.
            None if self.stop == StopRequest::Kill => return,
            Some(Ruling::Pass) => match read(&planner, printed) {
                Ok(reply) => self.propose(&planner, request, &reply),
                Err(problem) => Ok(Some(problem)),
            },
            Some(Ruling::Fail) | None => Ok(Some(printed.to_owned())),
        };
        let recorded = taken.and_then(|problem| match problem {
            Some(problem) => self.record_unusable_reply(&planner, request, problem),
            None => Ok(()),
        });
        if let Err(error) = recorded {
            self.fail(error);
        }
        self.count();
    }

    /// Report the changes of the planner: files, unless a worker was at work in the meantime, and variables.
    fn report_changes(&mut self, planner: &Planner) {
        let (Some(watch), Some(ledger)) =
            (self.planning.watch.take(), self.workers.shared_folder().map(Path::to_owned))
        else {
            return;
        };
        let is_alone = watch.was_alone && watch.dispatched == self.session.dispatched;
        if let Some(note) =
            watch.files.changes(&FolderState::of_working_folder(&ledger)).filter(|_| is_alone)
        {
            self.note(None, format!("{} {note}", planner.name()));
        }
        let Some(state) = self.state() else { return };
        let Some(run) = state.runs.get(&self.run) else { return };
        let name = planner.name();
        let is_set = |variable: &Variable| {
            variable.time > watch.since
                && matches!(&variable.origin, Origin::Person { who } if *who == name)
        };
        let set: Vec<&str> = run
            .variables
            .iter()
            .filter(|(variable, it)| *variable != PLANNER && is_set(it))
            .map(|(variable, _)| variable.as_str())
            .collect();
        if !set.is_empty() {
            let note = format!("{name} set variables, although it only plans: {}", set.join(", "));
            self.note(None, note);
        }
    }

    /// The reason why the ledger rejected the plan, if it did.
    fn propose(
        &mut self,
        planner: &Planner,
        request: u64,
        reply: &PlannerReply,
    ) -> Result<Option<String>> {
        let (run, by) = (self.run, planner.name());
        let reason = {
            let state = self.ledger.state()?;
            let open = state.runs.get(&run).and_then(|run| run.request.as_ref());
            let Some(open) = open.filter(|open| open.seq == request) else {
                drop(state);
                let note = format!("{by} answered a request that was resolved in the meantime");
                self.note(None, note);
                return Ok(None);
            };
            if let PlannerReply::Plan(work) = reply
                && let Some(rationale) = rationale(&work.plan)
            {
                format!("{by}: {rationale}")
            } else if open.reason.is_erasable() {
                // The reason of a version cannot be erased.
                format!("{by}: the request of record {request}")
            } else {
                format!("{by}: {}", open.reason)
            }
        };
        let proposed = match reply {
            PlannerReply::NoMore(why) => {
                return Ok(rejection_text(self.ledger.withdraw_replan(run, &by, why))?.err());
            }
            PlannerReply::Plan(work) => {
                let approval = self.approval_of(planner, &work.commands);
                let draft = plan_draft(&work.plan).map_err(Error::from)?;
                let author = Some(by.clone());
                let draft = draft.with_provenance(Provenance { author, ..Provenance::default() });
                self.ledger.propose_with(run, draft, &reason, None, approval)
            }
        };
        Ok(match rejection_text(proposed)? {
            Ok(version) => {
                let state = self.ledger.state()?;
                let is_active = state.runs.get(&run).is_some_and(|run| run.active == version);
                self.observer.progress(&Progress::Proposed { version, by, is_active });
                None
            }
            Err(problem) => Some(problem),
        })
    }

    /// Whether a plan needs approval. It does if it has commands in a form of another tool that were not approved in
    /// this ledger; these are listed.
    fn approval_of(&mut self, planner: &Planner, commands: &[String]) -> ApprovalPolicy {
        let mut new: BTreeSet<&str> = commands.iter().map(String::as_str).collect();
        if let (false, Some(state)) = (new.is_empty(), self.state()) {
            let approved = approved_commands(&state);
            new.retain(|command| !approved.contains(*command));
        }
        if new.is_empty() {
            return planner.approval;
        }
        let list = new.into_iter().collect::<Vec<_>>().join("; ");
        let name = planner.name();
        if planner.commands_approved {
            self.note(None, format!("{name}: its plan has commands: {list}"));
            return planner.approval;
        }
        let what = "its plan waits for approval, since it has commands that are not approved";
        self.note(None, format!("{name}: {what}: {list}"));
        ApprovalPolicy::Required
    }

    fn record_unusable_reply(
        &mut self,
        planner: &Planner,
        request: u64,
        problem: String,
    ) -> Result<()> {
        let state = self.ledger.state()?;
        let Some(run) = state.runs.get(&self.run) else { return Ok(()) };
        let open = run.request.as_ref().filter(|open| open.seq == request);
        let mut unusable = open.map(|open| unusable(run, open)).unwrap_or_default();
        let note = format!("{} gave no usable plan: {}", planner.name(), first_line(&problem));
        unusable.problems.push(problem);
        self.note(None, note);
        let value = Json::from(serde_json::to_value(&unusable).unwrap_or_default());
        let set = self.ledger.set_variable(self.run, PLANNER, value, None, &planner.name());
        // The rejection of a run that has ended is ignored, since it needs no such record.
        rejection_text(set).map(drop)
    }
}

/// Whether the run accepts a new plan version now. A run that is paused by its budget accepts one
/// if that pause caused the request, since the new version can end the pause.
fn may_be_asked(run: &Run, request: &ReplanRequest) -> bool {
    let is_free = run.pause.as_ref().is_none_or(|cause| {
        cause.is_cost_pause() && request.trigger == ReplanTrigger::BudgetExhausted
    });
    run.status == RunStatus::Running && is_free && run.newest_proposal().is_none()
}

/// The planner's explanation of its plan, if the plan has one: `extra.rationale`.
pub(crate) fn rationale(plan: &Plan) -> Option<&str> {
    let rationale = plan.extra.get("rationale")?.as_str()?.trim();
    Some(rationale).filter(|rationale| !rationale.is_empty())
}

/// The reason why no planner is started for a request; `None` if one may be started.
fn reason_not_to_ask(run: &Run, request: &ReplanRequest, unusable: &Unusable) -> Option<String> {
    if unusable.problems.len() >= REPLIES_MAX {
        return Some(format!("{REPLIES_MAX} of its replies were unusable"));
    }
    let trigger = &request.trigger;
    let is_free = trigger.is_change_of_scope() || *trigger == ReplanTrigger::Extension;
    let max = run.max_replans().filter(|_| !is_free)?;
    (run.replans >= max).then(|| format!("replan limit reached ({max})"))
}

/// The text of a rejection; every other error is returned.
fn rejection_text<T>(done: Result<T>) -> Result<std::result::Result<T, String>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(error) if is_rejection(&error) => Ok(Err(error.to_string())),
        Err(error) => Err(error),
    }
}

fn is_rejection(error: &Error) -> bool {
    error.rejection().is_some() || error.kind() == plan_ledger::ErrorKind::BadPlan
}

/// The record of the unusable replies to a request.
fn unusable(run: &Run, request: &ReplanRequest) -> Unusable {
    let recorded = run.variables.get(PLANNER);
    let recorded = recorded.and_then(|it| serde_json::from_str(it.value.as_str()).ok());
    recorded
        .filter(|unusable: &Unusable| unusable.request == request.seq)
        .unwrap_or(Unusable { request: request.seq, problems: Vec::new() })
}

/// Parse the output of a planner: a plan, or `{"no_more": "why"}`.
fn read(planner: &Planner, printed: &str) -> std::result::Result<PlannerReply, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct NoMore {
        no_more: String,
    }
    if let Ok(NoMore { no_more }) = serde_json::from_str(printed) {
        return Ok(PlannerReply::NoMore(no_more));
    }
    planner.plan(printed.as_bytes()).map(|work| PlannerReply::Plan(Box::new(work)))
}
