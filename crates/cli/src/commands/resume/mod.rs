//! `ledger resume`: starts the last runner of a run again.

mod service_start;

use std::io::{self, BufRead as _, IsTerminal as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use plan_ledger::{Ending, Error, ErrorKind, LedgerView, RunStatus, State, StepStatus};
use plan_ledger_views::{has_plan, rejected_text, start_another, start_runner};

use crate::commands::inspect::health::lost_text;
use crate::commands::inspect::newest_state;
use crate::options::{AsJson, LedgerOption, RunArg, environment};
use crate::output::{Code, Failure, is_quiet, print_message, print_text, quoted, shell_command};
use crate::protocol::OWN_LEDGER;
use crate::requests::run_of;
use crate::runner::runner_waits;
use crate::server::{
    AgentSession, LastRunner, LastRunners, ResumePlace, RunnerStatus, expect_outside,
    expect_person_for, is_rollback_accepted, ledger_id,
};

use service_start::{RunProgress, admit, only_waited};

pub(crate) use service_start::ServiceStarts;

const EXAMPLES: &str = "\
Examples:
  ledger resume                                    continue where the last runner stopped
  ledger resume night                              the same for this run, where several were started
  ledger resume --retry-failed                     retry the failed steps as well
  ledger resume --show                             print its command line and do nothing

It repeats the last `ledger run` of the run, with its options, in its working folder. The command
line is kept in your state folder (XDG_STATE_HOME), never in the ledger. If the working folder was moved
with the ledger in it, the run continues in the new place. In a copy, if only the ledger was moved, or
where there is no /proc to show whether that runner has ended, the command line is shown first, and
--yes starts it. If the plan file is gone, broken or another plan by now, the run continues with the plan
in the ledger. It is shown first, too, if an agent session chose its --judge, --planner, --decider or --text.
To start the steps of a paused run, use `ledger unpause`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ResumeArgs {
    #[command(flatten)]
    place: LedgerOption,
    #[command(flatten)]
    run: RunArg,
    /// Print the command line, and do nothing
    #[arg(long)]
    show: bool,
    /// Retry the failed steps first, and unpause the run if its runner paused it
    #[arg(long)]
    retry_failed: bool,
    /// Kill the workers that the last runner left at work, instead of taking them over; a worker of a step
    /// with `idempotent: no` is always taken over
    #[arg(long)]
    kill_orphans: bool,
    /// For a service: start it only if its command line and folders have this digest, and give up after
    /// three starts that work and finish no step (see `ledger setup service`)
    #[arg(long, value_name = "DIGEST", conflicts_with_all = ["kill_orphans", "retry_failed", "show", "yes"])]
    service: Option<String>,
    /// Start it without asking, even if the ledger was copied or moved, or if the last runner may be
    /// at work
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    json: AsJson,
}

pub(crate) fn resume(args: &ResumeArgs) -> Result<Code, Failure> {
    let dir = &args.place.dir;
    expect_outside(std::process::id(), dir)?;
    let view = LedgerView::open(dir, &environment())?;
    let (state, unread) = newest_state(dir, &environment())?;
    let status = RunnerStatus::of(dir, view.log());
    if let (RunnerStatus::AtWork(process), false) = (&status, args.show) {
        // As for `ledger run` beside another runner.
        let error = Error::new(ErrorKind::Locked, format!("a runner is at work: {process}"));
        return Err(error.with_hint("`ledger status` shows what it does").into());
    }
    if args.retry_failed && !args.show {
        expect_person_for("--retry-failed", dir, "operator")?;
    }
    let id = ledger_id(view.log()).unwrap_or_default();
    let last = match (find_last(dir, (&id, &state), args.run.name()), unread) {
        // The run may be in the records that cannot be read, and nothing is started on a damaged ledger.
        (Err(_), Some(unread)) => {
            let message = format!("no runner is known: {unread}");
            return Err(Error::new(ErrorKind::Corrupt, message).into());
        }
        (found, unread) => {
            for problem in unread.iter().chain(&lost_text(&state)) {
                print_message(&format!("warning: {problem}"));
            }
            &found?
        }
    };
    expect_plan(&state, last, dir)?;
    let found = dir.canonicalize().unwrap_or_default();
    let place = ResumePlace::of(last, &id, &found)?;
    let words = words(last, &place, &found, args)?;
    let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let line = format!("ledger {line}");
    let folder = place.folder.display();
    if args.show {
        print_message(&format!("in {folder}:"));
        print_text(&format!("{line}\n"))?;
        return Ok(Code::Success);
    }
    let unseen = status.absence().filter(|_| status.is_unseen());
    let hint = if unseen.is_some() {
        "look for that process where it was started; if it has ended, add --yes"
    } else {
        "add --yes to start it"
    };
    // An agent session may repeat the command line, and decides nothing for a person by that. A
    // service repeats the command line that a person set up.
    let is_chosen = args.service.is_some() || AgentSession::of_environment().is_some();
    let of_agent = if is_chosen { None } else { last.choice_of_agent() };
    let doubts: Vec<String> = place.doubt.into_iter().chain(unseen).chain(of_agent).collect();
    if !doubts.is_empty() && !args.yes {
        confirm(&format!("{}; in {folder}: {line}", doubts.join("; ")), hint)?;
    }
    match &args.service {
        None => ServiceStarts::forget(last),
        Some(digest) => {
            if last.ledger != found {
                let message = "the ledger was copied or moved since the service was set up";
                return Err(Failure::Rejected(message.to_owned()));
            }
            admit(last, digest, progress_of(dir, &state, &last.run)?)?;
        }
    }
    print_message(&format!("in {folder}: {line}"));
    let mut command = Command::new(own_program());
    command.args(&words).current_dir(&place.folder).env_remove("LEDGER_DIR");
    let error = command.exec();
    Err(Failure::Usage(format!("cannot start it in {folder}: {error}")))
}

/// The progress of a run without a runner at work.
fn progress_of(dir: &Path, state: &State, name: &str) -> Result<RunProgress, Failure> {
    let Some(run) = state.run_named(name) else { return Ok(RunProgress::default()) };
    let now = environment().time_of(dir, state.time)?;
    // Its hours are those of the runner that was ended.
    let waits = runner_waits(dir, state, now, || false);
    Ok(RunProgress {
        finished: run.count(StepStatus::Accepted).saturating_add(run.count(StepStatus::Skipped)),
        only_waited: only_waited(run, &waits),
    })
}

/// The words of the command line. They name the ledger, unless the runner finds it by itself: then its messages
/// need not name it.
fn words(
    last: &LastRunner,
    place: &ResumePlace,
    ledger: &Path,
    args: &ResumeArgs,
) -> Result<Vec<String>, Failure> {
    let mut words = place.relocated(last)?;
    let mut added = Vec::new();
    if ledger != place.folder.join(OWN_LEDGER) {
        added.push(format!("--ledger={}", ledger.display()));
    }
    if args.retry_failed {
        added.push("--retry-failed".to_owned());
    }
    if is_rollback_accepted() {
        added.push("--accept-rollback".to_owned());
    }
    if args.kill_orphans {
        added.push("--kill-orphans".to_owned());
    }
    let has = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
    if args.json.0 && !has(&["--json"]) {
        added.push("--json".to_owned());
    }
    if is_quiet() && !has(&["--quiet", "-q"]) {
        added.push("--quiet".to_owned());
    }
    let at = words.iter().position(|word| word == "run").map_or(0, |at| at + 1);
    // Words after `--` are not options.
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    words.insert(end, "--keep-plan".to_owned());
    // A service does not read the command line that it starts.
    if args.service.is_some() {
        words.insert(end, "--approve-nothing".to_owned());
    }
    words.splice(at..at, added);
    Ok(words)
}

/// The last runner of a run, by name, else as `ledger resume` chooses it.
pub(crate) fn last_runner(place: &LedgerOption, run: Option<&str>) -> Result<LastRunner, Failure> {
    let view = LedgerView::open(&place.dir, &environment())?;
    let (state, _) = newest_state(&place.dir, &environment())?;
    let id = ledger_id(view.log()).unwrap_or_default();
    find_last(&place.dir, (&id, &state), run)
}

/// Rejects a run without a plan: its runner would only state that the last one was rejected.
fn expect_plan(state: &State, last: &LastRunner, dir: &Path) -> Result<(), Failure> {
    let Some(run) = state.run_named(&last.run).filter(|run| !has_plan(run)) else { return Ok(()) };
    let why = rejected_text(run).unwrap_or_else(|| "no version of the plan was approved".into());
    let message = format!(
        "run {}: {why}\nhint: change the plan and propose it: `{}`",
        run.name,
        start_runner(run, dir)
    );
    Err(Failure::Rejected(message))
}

fn find_last(
    dir: &Path,
    (id, state): (&str, &State),
    run: Option<&str>,
) -> Result<LastRunner, Failure> {
    let known = LastRunners::at(id, dir);
    choose(&known, run, state)?.cloned().ok_or_else(|| unknown_runner(dir, run, state))
}

/// The failure for a run with a last runner that is not known here.
fn unknown_runner(dir: &Path, run: Option<&str>, state: &State) -> Failure {
    let of = run.map_or_else(String::new, |run| format!("run {run} in "));
    let mut active = state.runs.overviews().filter(|(_, overview)| overview.is_open());
    let named = match run {
        Some(name) => run_of(state, name).ok(),
        None => active.next().and_then(|(id, _)| state.runs.get(&id)),
    };
    let newest = state.runs.values().next_back();
    let over = newest.filter(|_| run.is_none());
    let another = shell_command("run", dir, &["PLAN"]);
    let hint = match named.or(over) {
        Some(run) if run.status == RunStatus::Ended(Ending::Failed) => {
            let next = shell_command("next", dir, &[&run.name]);
            format!("run {} failed: `{next}` says what continues it", run.name)
        }
        Some(run) if matches!(run.status, RunStatus::Ended(_)) => {
            format!("run {} is over; `{}` starts another one", run.name, start_another(run, dir))
        }
        Some(run) if !has_plan(run) => {
            format!("first propose a plan: `{}`", start_runner(run, dir))
        }
        Some(run) => {
            format!(
                "start one with `{}`, with the options that the earlier one had",
                start_runner(run, dir)
            )
        }
        None => format!("start one with `{another}`"),
    };
    let dir = dir.display();
    Failure::Usage(format!("no earlier runner of {of}{dir} is known to this user\nhint: {hint}"))
}

/// The runner of the named run, else of the only active run, else the newest runner.
fn choose<'a>(
    known: &'a LastRunners,
    run: Option<&str>,
    state: &State,
) -> Result<Option<&'a LastRunner>, Failure> {
    if let Some(name) = run {
        return Ok(known.of_run(&run_of(state, name)?.name));
    }
    let mut active = state.runs.overviews().filter(|(_, overview)| overview.is_open());
    let only = match (active.next(), active.next()) {
        (Some((_, overview)), None) => known.of_run(&overview.name),
        _ => None,
    };
    Ok(only.or_else(|| known.newest()))
}

/// This program: its file, or without `/proc` the word that started it.
pub(crate) fn own_program() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| {
        let word = std::env::args_os().next().unwrap_or_else(|| "ledger".into());
        let path = PathBuf::from(&word);
        // A word without a folder was found on the search path. The runner starts in another
        // folder.
        if path.components().count() > 1 { path.canonicalize().unwrap_or(path) } else { path }
    })
}

/// Asks on a terminal whether to continue.
fn confirm(what: &str, hint: &str) -> Result<(), Failure> {
    if io::stdin().is_terminal() {
        print_message(&format!("{what}; start it? [y/N]"));
        let mut line = String::new();
        io::stdin().lock().read_line(&mut line).map_err(Failure::Output)?;
        if matches!(line.trim(), "y" | "Y" | "yes") {
            return Ok(());
        }
        return Err(Failure::Rejected("it was not started".to_owned()));
    }
    Err(Failure::Rejected(format!("{what}\nhint: {hint}")))
}
