//! The arguments of `ledger run`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use plan_ledger::TextPolicy;
use plan_ledger::plan::{OnStale, OnUnknown, Route, is_person};

#[cfg(feature = "store")]
use crate::commands::store::HoldOptions;
use crate::options::{
    AsJson, GuardArgs, InputArgs, ReadPlanArgs, RouteArgs, WorkerLimitArgs, default_ledger,
    parse_name, parse_text_policy,
};
use crate::protocol::parse_words;

use super::helpers::HelperArgs;

/// The examples, with those of a store where the program has them.
macro_rules! examples {
    ($example:literal, $text:literal) => {
        concat!(
            "\
Examples:
  ledger run plan.yaml                             steps that have commands
  ledger run plan.yaml --worker 'python3 agent.py' an agent for all other steps
  ledger run tasks.json --stub --json              a task-master file, canned answers, JSON Lines
  ledger run loan.yaml --set applicant_id=A-7291   the value of an input of the plan
  ledger run plan.yaml --retry-failed              once the causes of the failures are gone
  ledger run plan.yaml --replan --reason 'scope'   continue with the changed plan file
  ledger run tasks.md --reading headings --stub    of a file that can be read in two ways
  ledger run tasks.md --worker ./agent.sh --tick   tick each step in the file when it is accepted
  ledger run plan.yaml --worker ./agent.sh --judge ./judge.sh --planner ./planner.sh --wait
",
            $example,
            "
A worker gets its task as JSON on standard input and in LEDGER_* variables, and prints its output.
The first Ctrl-C stops dispatching and waits for running workers; the second one, or SIGTERM, ends
them (SIGTERM, then SIGKILL after --grace).

The command of --notify gets LEDGER_EVENT (waiting, done, failed, cancelled, aborted, interrupted,
stopped, budget or held), LEDGER_MESSAGE, LEDGER_RUN and LEDGER_DIR.",
            $text
        )
    };
}

#[cfg(not(feature = "store"))]
const EXAMPLES: &str = examples!("", "");

#[cfg(feature = "store")]
const EXAMPLES: &str = examples!(
    "  ledger run plan.yaml --worker ./agent.sh --store s3://my-ledgers/night
",
    "

With --store the log is in the store, and a result counts as saved as --ack says; a ledger that does not exist is created
there, and a folder that does not exist is restored. If another process took over, or the store gives no answer for the
lease, the workers are ended, since another machine may do their steps: the exit code is 6 or 7, and `ledger resume`
continues the run. Steps that another machine's runner had started keep their leases."
);

/// The actions after a failure of unknown class.
const ON_UNKNOWN: &[(&str, &str)] = &[
    ("ask", "A person decides; other steps continue"),
    ("retry", "The step is dispatched again while attempts are left"),
    ("fail", "The step fails"),
];

/// The actions before a step whose files changed.
const ON_STALE: &[(&str, &str)] = &[
    ("warn", "It is reported"),
    ("ask", "The run is paused, and a person decides"),
    ("replan", "Another plan is requested from the step on"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// The plan: our own YAML, JSON or Markdown, or a file of task-master, Ralph, beads, spec-kit,
    /// OpenSpec, any JSON list of tasks, any Markdown with tasks (format/plan-files.md)
    #[arg(value_name = "PLAN")]
    pub(super) plan: PathBuf,
    /// The ledger's folder [default: the nearest .ledger, here or in a folder above]; created if
    /// it does not exist
    #[arg(long, value_name = "DIR", env = "LEDGER_DIR", hide_env_values = true)]
    #[arg(default_value_os_t = default_ledger(), hide_default_value = true)]
    pub(super) ledger: PathBuf,
    /// The run's name [default: the file's name without its extension]
    #[arg(long, value_name = "NAME")]
    pub(super) run: Option<String>,
    /// Shell command for the steps that have no command of their own
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    pub(super) worker: Option<String>,
    /// Shell command for the steps of this owner that have no command of their own, instead of --worker, and
    /// for those that it takes as a second owner (`owners` in the plan); may be repeated
    #[arg(long, value_name = "OWNER=CMD", conflicts_with = "stub", value_parser = parse_worker_for)]
    pub(super) worker_for: Vec<(String, String)>,
    /// Answer every step at once, at no cost, without doing anything
    #[arg(long)]
    pub(super) stub: bool,
    #[command(flatten)]
    pub(super) route: RouteArgs,
    /// How many workers may run at once [default: 4; 1 with --worker in a git checkout, whose files
    /// the workers would share]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_parallel: Option<u16>,
    /// Kill this process and its workers with SIGKILL when step number N is in flight, to test that it resumes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kill_at: Option<u32>,
    /// Dispatch every step, even those that the file marks as done
    #[arg(long)]
    pub(super) fresh: bool,
    /// How text criteria are judged [default: judge; trust for imported files and --stub]
    #[arg(long, value_name = "WHO", value_parser = parse_text_policy())]
    pub(super) text: Option<TextPolicy>,
    /// Stop dispatching after the first final failure of a step
    #[arg(long)]
    pub(super) fail_fast: bool,
    /// Action after a failure of unknown class of a step that states no `retry` [default: ask]
    #[arg(long, value_name = "HOW", value_parser = parse_words::<OnUnknown>(ON_UNKNOWN))]
    pub(super) on_unknown: Option<OnUnknown>,
    /// Action before a step whose files (`changes`) changed since the plan was made [default:
    /// `failure.on_stale` of the plan, else warn]
    #[arg(long, value_name = "HOW", value_parser = parse_words::<OnStale>(ON_STALE))]
    pub(super) on_stale: Option<OnStale>,
    /// Continue with the file's plan if it differs from the run's
    #[arg(long)]
    pub(super) replan: bool,
    /// Continue with the plan in the ledger if the file is broken or another plan, as `ledger resume` does
    #[arg(long, conflicts_with = "replan")]
    pub(super) keep_plan: bool,
    /// Approve no commands of the plan: those that a person did not approve are left to be checked later
    #[arg(long, hide = true)]
    pub(super) approve_nothing: bool,
    /// The reason for the change of the plan
    #[arg(long, value_name = "TEXT", requires = "replan")]
    pub(super) reason: Option<String>,
    /// Take the default reading of a file of another tool, and execute its commands, without a question
    #[arg(long, short = 'y')]
    pub(super) yes: bool,
    /// Retry failed steps, and unpause the run if its runner paused it
    #[arg(long)]
    pub(super) retry_failed: bool,
    /// Kill the workers that an earlier runner left at work, instead of taking them over; a worker of a step
    /// with `idempotent: no` is always taken over
    #[arg(long)]
    pub(super) kill_orphans: bool,
    /// Keep the marks of the plan file as the statuses of the run, while it runs: each step is ticked when it is accepted
    // Stubs do no work, and the file would call it done.
    #[arg(long, conflicts_with = "stub")]
    pub(super) tick: bool,
    /// Wait for people and deadlines, instead of ending with exit code 3; answer from another shell
    #[arg(long)]
    pub(super) wait: bool,
    #[command(flatten)]
    pub(super) guards: GuardArgs,
    /// Shell command to run when the run waits for a person, ends, or has used 80 % of its budget
    #[arg(long, value_name = "CMD")]
    pub(super) notify: Option<String>,
    #[command(flatten)]
    pub(super) limits: WorkerLimitArgs,
    #[command(flatten)]
    pub(super) helpers: HelperArgs,
    #[command(flatten)]
    pub(super) inputs: InputArgs,
    #[command(flatten)]
    pub(super) read: ReadPlanArgs,
    #[command(flatten)]
    pub(super) json: AsJson,
    #[cfg(feature = "store")]
    #[command(flatten)]
    pub(super) store: HoldOptions,
}

/// Parses `OWNER=CMD`.
fn parse_worker_for(text: &str) -> Result<(String, String), String> {
    let expected = || "expected OWNER=CMD, such as codex='codex exec'".to_owned();
    let (owner, command) = text.split_once('=').ok_or_else(expected)?;
    let (owner, command) = (parse_name(owner.trim())?, command.trim());
    if is_person(&owner) {
        return Err("a person has no command; name an agent".to_owned());
    }
    if command.is_empty() { Err(expected()) } else { Ok((owner, command.to_owned())) }
}

/// How many workers run at once by default.
const PARALLEL_DEFAULT: u16 = 4;

impl RunArgs {
    /// How many workers may run at once.
    pub(super) fn max_parallel(&self) -> usize {
        let default = if self.is_serialized() { 1 } else { PARALLEL_DEFAULT };
        usize::from(self.max_parallel.unwrap_or(default))
    }

    /// The steps that the workers take. Stub workers also take those of people.
    pub(super) fn route(&self) -> Route {
        let route = self.route.route();
        let seconds = self.workers_for().into_keys().chain(route.owners.iter().cloned()).collect();
        Route { is_stub: self.stub, seconds, ..route }
    }

    /// The commands for the steps of owners, by their names.
    pub(super) fn workers_for(&self) -> BTreeMap<String, String> {
        self.worker_for.iter().cloned().collect()
    }

    /// Whether workers do steps that have no command of their own.
    pub(super) fn has_worker(&self) -> bool {
        self.worker.is_some() || !self.worker_for.is_empty()
    }

    /// Whether workers run one after the other, because they would share a git checkout, and no
    /// other number is given.
    pub(super) fn is_serialized(&self) -> bool {
        let in_checkout = || {
            let working_dir = std::env::current_dir();
            working_dir.is_ok_and(|dir| dir.ancestors().any(|above| above.join(".git").exists()))
        };
        self.max_parallel.is_none() && self.has_worker() && in_checkout()
    }
}
