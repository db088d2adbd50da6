//! The arguments of `ledger work`.

use clap::Args;

use crate::options::{
    GuardArgs, RouteArgs, RunArg, WaitLimit, WorkerLedgerArgs, WorkerLimitArgs, WorkerOption,
    parse_wait_limit,
};

/// The examples, with those of servers on other machines where the program can ask them.
macro_rules! examples {
    ($example:literal, $text:literal) => {
        concat!(
            "\
Examples:
  ledger work -- python3 agent.py                  until there is no more work
  ledger work my-plan --worker w1 --wait -- ./agent.sh
  ledger work --owner tester --wait -- ./test.sh   steps of that owner or of no owner, of every run
  ledger work --judge-only --wait                  check what agent sessions report
  for n in 1 2 3; do ledger work --worker w$n --wait -- ./agent.sh & done; wait
",
            $example,
            "
Without RUN, it takes steps of every run that has not ended, oldest run first.

The command gets its task as `ledger run` gives it (format/hand-off.md): JSON on standard input, and
LEDGER_* in its environment; its standard output is its output. A step with its own command runs that
command instead. Criteria that are commands are checked after each step, and those of the plan after the
last one, outside agent sessions and if a person approved the commands; text criteria wait for `ledger accept`.

With --judge-only it claims nothing, and checks reported steps, and then the plan, of each run: it
runs a command only if a person approved the commands of the plan for this run (`ledger run FILE` or
`ledger run RUN` outside agent sessions, or `ledger plan approve`). An approval covers the text of the
commands, not the scripts that they call. They run in the folder in which they were approved, or in the
worktree of its repository in which the step was claimed. A judge does not start inside an attempt or
an agent session. Exit code 3: a step stays reported that it may not check.

The first Ctrl-C stops claiming and waits for the command; the second one, or SIGTERM, ends it (SIGTERM,
then SIGKILL after --grace). If the lease of an
attempt expires or its step is cancelled, the command is ended at the next renewal, together with
its child processes. If the ledger is locked or the disk is full, a report is retried until the
lease expires, and a claim for as long as --wait lasts.

As in `ledger run`, workers that fail at once at several steps (with --wait: again after three waits)
pause the run with a question, and after a usage limit in the last output of a failed worker, or
retry_after_seconds, no step of its owner is claimed until it ends, nor any while the disk is nearly full. It has one
command, so it gives no step to a second owner (`owners` in the plan), as `ledger run --worker-for` does. `ledger logs`
shows what the command prints.

Exit code 0: the run is done, or --max steps were tried. 1: it failed. 3: no step is ready although
the run is not over, or Ctrl-C stopped this with work left.",
            $text
        )
    };
}

#[cfg(not(feature = "store"))]
const EXAMPLES: &str = examples!("", "");

#[cfg(feature = "store")]
const EXAMPLES: &str = examples!(
    "  ledger work --wait --server https://a.example.org:8443,https://b.example.org:8443 -- ./agent.sh
",
    "

With --server nothing is read from a ledger on this machine, and criteria that are commands are checked where the
ledger is: by a `ledger work` or `ledger run` there."
);

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct WorkArgs {
    #[command(flatten)]
    pub(super) ledger: WorkerLedgerArgs,
    #[command(flatten)]
    pub(super) run: RunArg,
    #[command(flatten)]
    pub(super) worker: WorkerOption,
    #[command(flatten)]
    pub(super) route: RouteArgs,
    /// Stop after this many steps, failed ones included
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max: Option<u64>,
    /// Wait until a step is ready, at most this long: `90s`, `5m`, or seconds each time
    #[arg(long, value_name = "DURATION", num_args = 0..=1, default_missing_value = "forever")]
    #[arg(value_parser = parse_wait_limit)]
    pub(super) wait: Option<WaitLimit>,
    #[command(flatten)]
    pub(super) guards: GuardArgs,
    #[command(flatten)]
    pub(super) limits: WorkerLimitArgs,
    /// Claim nothing: check the reported steps that have command criteria, with commands that a person
    /// approved
    #[arg(long, conflicts_with_all = ["command", "max", "owner", "tag"])]
    #[arg(conflicts_with_all = ["output_timeout", "progress_timeout", "repeat_limit"])]
    pub(super) judge_only: bool,
    /// With --judge-only: stop when standard input ends, so that the judge ends with the program that started
    /// it
    #[arg(long, requires = "judge_only")]
    pub(super) until_eof: bool,
    /// The command that works on the steps, and its arguments
    #[arg(last = true, value_name = "CMD", required_unless_present = "judge_only")]
    pub(super) command: Vec<String>,
}
