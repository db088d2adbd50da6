//! The claims of a session: which of them are open or not verified, and the texts about them for the agent.
//!
//! A claim belongs to a session if its worker has the session's name, or if a tool of the session got
//! its token in the answer to a claim.

use std::collections::BTreeMap;
use std::path::Path;

use plan_ledger::internals::ledger::time_text;
use plan_ledger::plan::{Route, Token};
use plan_ledger::{AttemptToken, Run, State, StepNumber, StepState, StepStatus, Timestamp};

use crate::commands::prime::ReadFrom;
use crate::output::{escape_control, quoted};
use crate::protocol::{StepName, unchecked_text};
use plan_ledger_views::{WaitingItem, step_name, step_title, waiting_items};

use super::session::HostSession;

/// Parts of the answer to a claim without spaces: as JSON, and as text.
const TASK_JSON: &str = "\"type\":\"task\"";
const TOKEN_JSON: &str = "\"token\":\"";
const TOKEN_TEXT: &str = "token";

/// A placeholder for a token with a secret that only the claim knew.
const NO_TOKEN: &str = "a claim whose token only its answer had";

/// How many claims a text names.
const NAMED_MAX: usize = 3;

#[derive(Debug, Clone, PartialEq, Eq)]
struct SessionClaim {
    seq: AttemptToken,
    /// `None` if no tool of the session got the token: then the session has the claim, but cannot
    /// report.
    token: Option<Token>,
    run: String,
    /// Number and id of the step.
    step: String,
    /// The options of `ledger release` that name the step.
    options: String,
    title: String,
    state: ClaimState,
}

/// The state of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
enum ClaimState {
    /// The session has the step.
    Open {
        lease_until: Timestamp,
        /// Half of the lease is over.
        is_due: bool,
    },
    /// It was reported, and criteria have no verdict yet.
    Unverified {
        open: Vec<String>,
        /// The reason why no process checks it, and the remedy.
        unchecked: Option<String>,
    },
    /// Another worker has the step, or the step is no longer needed.
    Lost(String),
}

/// The claims of a session in one ledger.
#[derive(Debug)]
pub(super) struct SessionClaims {
    claims: Vec<SessionClaim>,
}

impl SessionClaims {
    /// Finds the claims of a session. Those that ended as they should are forgotten.
    pub(super) fn find(
        session: &HostSession,
        ledger: &Path,
        state: &State,
        now: Timestamp,
    ) -> Self {
        let by_name = attempts(state).filter(|(_, _, _, worker)| *worker == session.worker());
        let mut found: BTreeMap<AttemptToken, Option<Token>> =
            by_name.map(|(token, ..)| (token, None)).collect();
        found.extend(session.tokens(ledger).into_iter().map(|token| (token.seq, Some(token))));
        let mut claims = Vec::new();
        for (seq, token) in found {
            match claim_of((ledger, state), (seq, token), now) {
                Some(claim) => {
                    if matches!(claim.state, ClaimState::Lost(_)) {
                        session.forget_token(ledger, seq);
                    }
                    claims.push(claim);
                }
                // A hook that runs at the same time kept a claim that is newer than the state.
                None if seq.0 <= state.seq => session.forget_token(ledger, seq),
                None => {}
            }
        }
        Self { claims }
    }

    /// Adds the claims in the answer of a tool, and keeps them for the session.
    pub(super) fn with_claims_in(
        mut self,
        answer: &str,
        session: &HostSession,
        ledger: &Path,
        read: &ReadFrom<'_>,
    ) -> Self {
        for token in tokens_in(answer) {
            let is_known = self.claims.iter().any(|claim| claim.token == Some(token));
            let in_flight = read.state().in_flight.contains_key(&token.seq);
            let is_proven = read.state().is_proven(token.seq, token.into());
            if is_known || !in_flight || !is_proven {
                continue;
            }
            session.keep_token(ledger, token);
            self.claims.retain(|claim| claim.seq != token.seq);
            let claim = claim_of((ledger, read.state()), (token.seq, Some(token)), read.now());
            self.claims.extend(claim);
        }
        self
    }

    /// The tokens of leases that are half over.
    pub(super) fn due_for_renewal(&self) -> Vec<Token> {
        let due = self
            .claims
            .iter()
            .filter(|claim| matches!(claim.state, ClaimState::Open { is_due: true, .. }));
        due.filter_map(|claim| claim.token).collect()
    }

    /// The text for the agent about its lost claims; `None` if it lost none.
    pub(super) fn lost_text(&self) -> Option<String> {
        let lost = self.claims.iter().filter_map(|claim| match &claim.state {
            ClaimState::Lost(why) => {
                let SessionClaim { seq, run, step, .. } = claim;
                Some(format!("Stop working on {step} of run {run}: claim {seq} is over, {why}."))
            }
            _ => None,
        });
        joined(&lost.collect::<Vec<_>>())
    }

    /// Why the session must not end: a claim that the agent can report or release. `None` if it may end;
    /// for a verdict, which the agent cannot give, it is never held.
    pub(super) fn hold_text(&self) -> Option<String> {
        let held = self.claims.iter().filter_map(|claim| {
            let SessionClaim { run, step, options, .. } = claim;
            match (&claim.state, claim.token) {
                (ClaimState::Open { .. }, Some(token)) => Some(format!(
                    "{step} of run {run} is claimed by this session and not reported: finish it and \
                     report it (`ledger_report` with token {token}, or `ledger receipt {token}`), or \
                     release it (`ledger_release`, or `ledger release {token}`)."
                )),
                (ClaimState::Open { .. }, None) => Some(format!(
                    "{step} of run {run} is claimed by this session and not reported: finish it and \
                     report it with the token that the claim printed. Without that token, release it \
                     (`ledger release {options}`), and claim it again (`ledger claim`)."
                )),
                (ClaimState::Unverified { .. } | ClaimState::Lost(_), _) => None,
            }
        });
        joined(&held.collect::<Vec<_>>())
    }

    /// The text for the user at the end of the session: steps that it reported and that no judge checks. `None` if
    /// there are none.
    pub(super) fn unchecked_text(&self) -> Option<String> {
        let unchecked = self.claims.iter().filter_map(|claim| match &claim.state {
            ClaimState::Unverified { unchecked: Some(why), .. } => {
                Some(format!("{} of run {} is reported, and {why}.", claim.step, claim.run))
            }
            _ => None,
        });
        joined(&unchecked.collect::<Vec<_>>())
    }

    /// The text for the agent about itself: its worker name, and its claims.
    pub(super) fn own_text(&self, worker: &str) -> String {
        let mut text =
            format!("The worker name of this session is {worker}: pass it when you claim.\n");
        for claim in self.claims.iter().take(NAMED_MAX) {
            let SessionClaim { run, step, title, state, .. } = claim;
            let token = claim.token.map_or_else(|| NO_TOKEN.to_owned(), |it| format!("token {it}"));
            let title: String = title.chars().take(80).collect();
            let state = match state {
                ClaimState::Open { lease_until, .. } => {
                    format!("claimed until {}", time_text(*lease_until))
                }
                ClaimState::Unverified { open, unchecked } => {
                    let why =
                        unchecked.as_ref().map_or_else(String::new, |why| format!(" ({why})"));
                    format!("reported, waits for a verdict on {}{why}", open.join("; "))
                }
                ClaimState::Lost(why) => format!("lost: {why}"),
            };
            let line = format!("{token}: {step} of run {run}, {state}: {title}");
            text.extend(["This session has ", &escape_control(&line), "\n"]);
        }
        text
    }
}

/// Texts in lines, each escaped; `None` without one.
fn joined(texts: &[String]) -> Option<String> {
    if texts.is_empty() {
        return None;
    }
    let rest = texts.len().saturating_sub(NAMED_MAX);
    let mut shown: Vec<String> =
        texts.iter().take(NAMED_MAX).map(|text| escape_control(text)).collect();
    if rest > 0 {
        shown.push(format!("And {rest} more."));
    }
    Some(shown.join("\n"))
}

/// The attempts that are in flight or reported, with their workers.
fn attempts(state: &State) -> impl Iterator<Item = (AttemptToken, &Run, StepNumber, &str)> {
    let runs = state.runs.open().filter_map(|id| state.runs.get(&id));
    let reported = runs.flat_map(|run| run.reported.iter().map(move |number| (run, *number)));
    let in_flight =
        state.in_flight.values().filter_map(|(id, number)| Some((state.runs.get(id)?, *number)));
    in_flight.chain(reported).filter_map(|(run, number)| {
        let attempt = run.step(number)?.attempt()?;
        Some((attempt.token, run, number, attempt.worker.as_str()))
    })
}

/// The claim of an attempt; `None` if the attempt ended as it should: accepted, failed or released.
fn claim_of(
    (ledger, state): (&Path, &State),
    (seq, token): (AttemptToken, Option<Token>),
    now: Timestamp,
) -> Option<SessionClaim> {
    let (id, number, _) = state.dispatched.get(&seq)?;
    let (run, number) = (state.runs.get(id)?, *number);
    let step = run.step(number)?;
    let own = step.attempt().filter(|attempt| attempt.token == seq);
    let claim_state = match (step.status, own) {
        (StepStatus::Dispatched, Some(attempt)) => {
            let planned = run.plan().zip(run.plan_step(number));
            let lease = planned.map_or(0, |(plan, step)| plan.lease_of(step));
            let left = attempt.lease_until.saturating_sub(now);
            ClaimState::Open { lease_until: attempt.lease_until, is_due: left < lease / 2 }
        }
        (StepStatus::Reported, Some(_)) => unverified(ledger, run, number),
        (StepStatus::Dispatched, None) => {
            let worker = step.attempt().map_or("another worker", |attempt| attempt.worker.as_str());
            ClaimState::Lost(format!("{worker} has it now"))
        }
        (StepStatus::Cancelled | StepStatus::Removed, _) => {
            ClaimState::Lost(format!("the step is {}", step.status))
        }
        _ => return None,
    };
    let argument = StepName::of(run, number).argument();
    let options = format!("--step {} --run {}", quoted(&argument), quoted(&run.name));
    Some(SessionClaim {
        seq,
        token,
        run: run.name.clone(),
        options,
        step: step_name(run, number),
        title: step_title(run, number),
        state: claim_state,
    })
}

/// A reported step: its criteria without a verdict.
fn unverified(ledger: &Path, run: &Run, number: StepNumber) -> ClaimState {
    let open = waiting_items(run, &Route::default(), 0).into_iter().flat_map(|item| match item {
        WaitingItem::Verdicts { step, criteria } | WaitingItem::Checks { step, criteria }
            if step.number == number =>
        {
            criteria
        }
        _ => Vec::new(),
    });
    let mut open: Vec<String> = open.collect();
    if open.is_empty() {
        open.push("its criteria".to_owned());
    }
    ClaimState::Unverified { open, unchecked: unchecked_text(ledger, run, number) }
}

/// The tokens in the answers to claims. The text has no escapes and no spaces.
fn tokens_in(answer: &str) -> Vec<Token> {
    let is_json = answer.contains(TASK_JSON);
    let word = if is_json { TOKEN_JSON } else { TOKEN_TEXT };
    let places = answer.match_indices(word).filter_map(|(at, _)| answer.get(at + word.len()..));
    let tokens = places.filter_map(|rest| {
        let is_part = |c: char| c.is_ascii_hexdigit() || c == '-';
        let (token, after) = rest.split_at(rest.find(|c| !is_part(c)).unwrap_or(rest.len()));
        // As `ledger claim` prints it: `token 412-9f2c...: step 3 (build) of run ...`.
        let is_task = is_json || after.starts_with(":step");
        token.parse().ok().filter(|_| is_task)
    });
    tokens.collect()
}

/// Why a task of the host's own list must not be completed: it names a step that is not accepted.
pub(super) fn unaccepted_step(state: &State, task: &str) -> Option<String> {
    let runs = state.runs.open().filter_map(|id| state.runs.get(&id));
    let open = runs.flat_map(|run| {
        (1..).map(StepNumber).zip(&run.steps).map(move |(number, step)| (run, number, step))
    });
    let mut named = open.filter(|(run, number, step)| is_open(step) && names(task, run, *number));
    let (run, number, step) = named.next()?;
    let name = step_name(run, number);
    let missing = if step.status == StepStatus::Reported {
        "it waits for its verdicts, which are not yours to give"
    } else {
        "report the step, and complete the task when its criteria have passed"
    };
    joined(&[format!(
        "the ledger has not accepted {name} of run {}: it is {}; {missing}",
        run.name, step.status
    )])
}

fn is_open(step: &StepState) -> bool {
    !matches!(
        step.status,
        StepStatus::Accepted | StepStatus::Skipped | StepStatus::Removed | StepStatus::Cancelled
    )
}

/// Whether a text names a step: `#4`, or its id as a separate or quoted word.
fn names(task: &str, run: &Run, number: StepNumber) -> bool {
    let id = StepName::of(run, number).id;
    let numbered = format!("#{number}");
    let words = task.split(|c: char| c.is_whitespace() || ",;()[]".contains(c));
    let words = words.map(|word| word.trim_matches(|c: char| "`'\".:".contains(c)));
    words.filter(|word| !word.is_empty()).any(|word| {
        word == numbered
            || (word == id && (id.contains(['-', '_', '.', '/']) || is_alone(task, &id)))
    })
}

/// Whether a text is an id alone, or has it in quotes: an id such as `build` is a common word.
fn is_alone(task: &str, id: &str) -> bool {
    let quoted = ['`', '"', '\''].iter().any(|quote| task.contains(&format!("{quote}{id}{quote}")));
    quoted
        || task.lines().any(|line| line.trim() == id || line.trim().starts_with(&format!("{id}:")))
}

#[cfg(test)]
mod tests {
    //! Goal: tokens are found in answers to claims, and nowhere else.

    use super::*;

    #[test]
    fn tokens_are_found_in_answers_to_claims_only() {
        let token = format!("412-{}", "9f".repeat(16));
        let found = [token.parse().unwrap()];
        assert_eq!(tokens_in(&format!(r#"{{"token":"{token}","type":"task"}}"#)), found);
        assert_eq!(tokens_in(&format!("token{token}:step3(build)ofrunr,attempt1")), found);
        assert!(tokens_in(&format!(r#"{{"token":"{token}","type":"receipt"}}"#)).is_empty());
        assert!(tokens_in(r#"{"token":412,"type":"task"}"#).is_empty());
        assert!(tokens_in(&format!("thetoken{token}isover")).is_empty());
        assert!(tokens_in("token:step").is_empty());
    }
}
