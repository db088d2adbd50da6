//! `ledger hook HOST EVENT`: the command that an agent host runs at the events of a session.
//!
//! The host writes a JSON object to standard input; the answer is in the host's own form. When a
//! session starts, and after a compaction, the agent gets the prime. While it works, the hooks
//! renew the leases of its claims. If it stops while a claim of the session is open, the hook asks
//! the host to continue.
//!
//! Invariants:
//! - A session is held at most twice, never twice in a row, and never for actions that only a
//!   person can take. A task of the host is held back at most twice in a session.
//! - A hook that fails never blocks a session: it prints a message and ends with exit code 1. Exit
//!   code 2, which some hosts take as a veto, is used for an answer only.
//! - An agent that a runner started gets its step, and not the plan: the runner has the other steps.
//! - In a folder without a ledger, hooks do nothing. If the ledger is gone, the session gets a warning when it starts.
//! - A hook only informs and reminds: only its criteria accept a step, regardless of the host's
//!   reaction to the answer.

mod claims;
mod event;
mod hold_count;
mod input;
mod reply;
mod session;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use plan_ledger::{AttemptToken, Environment, State};

use crate::commands::prime::{PRIME_LENGTH_MAX, ReadFrom, prime_text, read_prime};
use crate::options::{Host, environment, gone_ledger_of, ledger_of, read_text};
use crate::output::{Code, Failure, print_error, print_message, print_raw};
use crate::protocol::OWN_LEDGER;
use crate::protocol::hand_off::title;
use crate::requests::{RenewRequest, Request};
use crate::server::{Client, gone_ledger_text, is_gone, own_attempt};

use claims::SessionClaims;
use event::HookEvent;
use hold_count::count_hold;
use input::HookInput;
use reply::{Rendered, Reply};
use session::HostSession;

const EXAMPLES: &str = "\
Examples:
  ledger hook claude-code SessionStart             print the prime, in the form of Claude Code
  ledger hook gemini AfterAgent                    ask to continue while a claim is open

Agent hosts call it: `ledger setup HOST` adds it to their settings. The input of the event is read
from standard input. HOST is claude-code, codex, gemini, opencode, cursor or vscode; EVENT is the
host's own name. Exit code 1: the hook failed, which blocks nothing. 2: the host must not complete
the task, at most twice in a session; the reason is on standard error.";

/// How long a renewal waits for a ledger that another process has locked.
const RENEWAL_WAIT: Duration = Duration::from_secs(1);

// Host and event are texts, since a wrong word must not end with the exit code of wrong usage.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct HookArgs {
    /// The host
    #[arg(value_name = "HOST")]
    host: String,
    /// The event, by the host's name
    #[arg(value_name = "EVENT")]
    event: String,
}

pub(crate) fn hook(args: &HookArgs) -> Result<Code, Failure> {
    let rendered = match answer(args) {
        Ok(rendered) => rendered,
        Err(failure) => {
            print_error(&failure.to_string());
            return Ok(Code::Failed);
        }
    };
    if let Some(json) = rendered.output {
        print_raw(&format!("{json}\n"))?;
    }
    match rendered.veto {
        Some(reason) => {
            print_message(&reason);
            Ok(Code::Usage)
        }
        None => Ok(Code::Success),
    }
}

fn answer(args: &HookArgs) -> Result<Rendered, Failure> {
    let host = Host::named(&args.host).ok_or_else(|| unknown_host(&args.host))?;
    let event = HookEvent::of(host, &args.event).ok_or_else(|| unknown_event(host, &args.event))?;
    let input = HookInput::parse(&read_text("-")?)?;
    if let Some(dir) = gone_ledger_for(&input) {
        let text = gone_ledger_text(&dir, true).filter(|_| event == HookEvent::SessionStart);
        let reply =
            text.map_or(Reply::Nothing, |text| Reply::Context(format!("plan-ledger: {text}")));
        return Ok(reply.render(host, &args.event));
    }
    let Some(dir) = ledger_for(&input) else { return Ok(Rendered::default()) };
    let session = HostSession::of(host, input.session_id());
    let reply = respond(event, &input, &session, &dir)?;
    Ok(reply.render(host, &args.event))
}

/// The ledger of the session: that of `LEDGER_DIR`, else that of the working folder of the session.
fn ledger_for(input: &HookInput) -> Option<PathBuf> {
    let named = std::env::var_os("LEDGER_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    match (named, input.folder()) {
        (Some(dir), _) => Some(dir).filter(|dir| dir.is_dir()),
        (None, Some(folder)) => ledger_of(folder),
        (None, None) => Some(PathBuf::from(OWN_LEDGER)).filter(|dir| dir.is_dir()),
    }
}

/// The ledger that the session would use, if it is lost.
fn gone_ledger_for(input: &HookInput) -> Option<PathBuf> {
    let named = std::env::var_os("LEDGER_DIR").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    match (named, input.folder()) {
        (Some(dir), _) => Some(dir).filter(|dir| is_gone(dir)),
        (None, Some(folder)) => gone_ledger_of(folder),
        (None, None) => Some(PathBuf::from(OWN_LEDGER)).filter(|dir| is_gone(dir)),
    }
}

fn respond(
    event: HookEvent,
    input: &HookInput,
    session: &HostSession,
    dir: &Path,
) -> Result<Reply, Failure> {
    let environment = environment();
    match event {
        HookEvent::Compacting => {
            session.note_compaction();
            return Ok(Reply::Nothing);
        }
        HookEvent::Prompt if !session.is_compacted() => return Ok(Reply::Nothing),
        _ => {}
    }
    let read = ReadFrom::open(dir, &environment)?;
    let claims = SessionClaims::find(session, dir, read.state(), read.now());
    match event {
        HookEvent::SessionStart => {
            session.offer_worker_name(environment.clock.now());
            // Some hosts lose this text if the session starts after a compaction.
            if !input.starts_after_compaction() {
                session.forget_compaction();
            }
            Ok(Reply::Context(session_prime(&read, session, &claims, dir)?))
        }
        HookEvent::Prompt => {
            session.forget_compaction();
            Ok(Reply::Context(session_prime(&read, session, &claims, dir)?))
        }
        HookEvent::ToolUsed => {
            let claims = claims.with_claims_in(&input.tool_answer(), session, dir, &read);
            renew(&claims, dir, &environment);
            Ok(claims.lost_text().map_or(Reply::Nothing, Reply::Context))
        }
        HookEvent::Stopping => {
            let held = claims.hold_text().filter(|_| may_hold(input, session, dir));
            let unchecked = || claims.unchecked_text().map_or(Reply::Nothing, Reply::Notice);
            Ok(held.map_or_else(unchecked, Reply::Hold))
        }
        HookEvent::TaskCompleted => {
            let task = input.task();
            let Some(reason) = claims::unaccepted_step(read.state(), &task) else {
                return Ok(Reply::Nothing);
            };
            let is_held = session.name().is_some_and(|name| count_hold(dir, name, Some(&task)));
            Ok(if is_held { Reply::Veto(reason) } else { Reply::Notice(completed_text(&reason)) })
        }
        HookEvent::Compacting => Ok(Reply::Nothing),
    }
}

/// Whether the hook may keep the session from stopping. A session that was just kept and stops again may end, because
/// otherwise it would never end. The others are counted. Without an identifier, the host must report that this is the
/// first stop.
fn may_hold(input: &HookInput, session: &HostSession, dir: &Path) -> bool {
    match (input.was_held(), session.name()) {
        (Some(true), _) | (None, None) => false,
        (Some(false), None) => true,
        (_, Some(name)) => count_hold(dir, name, None),
    }
}

/// The text for the user when the host completes a task although its step is not accepted.
fn completed_text(reason: &str) -> String {
    format!("{reason}. The host completes its own task; the step stays as it is.")
}

/// The prime, the claims of the session, and its worker name. An agent that a runner started gets its step only.
fn session_prime(
    read: &ReadFrom<'_>,
    session: &HostSession,
    claims: &SessionClaims,
    dir: &Path,
) -> Result<String, Failure> {
    if let Some((step, token)) = own_attempt(dir) {
        return Ok(attempt_prime(read.state(), &step, token));
    }
    let own = claims.own_text(session.worker());
    let room = PRIME_LENGTH_MAX.saturating_sub(own.len());
    let prime = prime_text(&read_prime(read, None)?, room);
    Ok(format!("{prime}{own}"))
}

/// The text for an agent that a runner started: the plan is not its task, and the runner records its result.
fn attempt_prime(state: &State, step: &str, token: Option<AttemptToken>) -> String {
    let task = || {
        let (run, number) = state.in_flight.get(&token?)?;
        let run = state.runs.get(run)?;
        Some((run.name.clone(), title(&run.plan_step(*number)?.decode())))
    };
    let what = task().map_or_else(
        || "this session works for a runner of the ledger".to_owned(),
        |(run, goal)| format!("this session is an attempt at step {step} of run {run}: {goal}"),
    );
    format!(
        "plan-ledger: {what}\nDo what you were asked and nothing else: the runner records the result. Claim, report and \
         release no step.\n"
    )
}

/// Renews the leases of the session's claims that are half over.
fn renew(claims: &SessionClaims, dir: &Path, environment: &Environment) {
    let mut client = Client::new(dir, environment).with_wait_limit(RENEWAL_WAIT);
    for token in claims.due_for_renewal() {
        let request: Request = RenewRequest { token, lease_seconds: None }.into();
        // The next event tries again, and reports a claim that is over.
        let _ = client.call(&request);
    }
}

fn unknown_host(word: &str) -> Failure {
    let names: Vec<_> = Host::ALL.into_iter().map(Host::name).collect();
    Failure::Usage(format!("unknown host `{word}`\nhint: use one of {}", names.join(", ")))
}

fn unknown_event(host: Host, word: &str) -> Failure {
    let names = HookEvent::names(host).join(", ");
    Failure::Usage(format!("{} has no event `{word}`\nhint: use one of {names}", host.name()))
}
