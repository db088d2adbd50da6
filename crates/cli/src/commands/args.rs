//! The command line: names, defaults and help.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::acting::Where;
use super::archive::ArchiveArgs;
use super::blobs::BlobsArgs;
use super::completions::{CompletionsArgs, ManArgs};
use super::control::{BudgetArgs, CancelArgs, ForkArgs, PauseArgs, ResumeArgs};
use super::export::ExportArgs;
use super::folder::Folder;
use super::helpers::HelperArgs;
use super::import_ledger::ImportArgs;
use super::inspect::{InspectArgs, StatusArgs};
use super::lab::LabArgs;
use super::plans::PlanArgs;
use super::prune::PruneArgs;
use super::questions::{AnswerArgs, QuestionsArgs};
use super::recover::RecoverArgs;
use super::serve::{InitArgs, ServeArgs};
use super::steps::{
    DecideArgs, GetArgs, NextArgs, NoteArgs, RetryArgs, SetArgs, SkipArgs, TickArgs,
};
use super::verify::{RootArgs, VerifyArgs};
use super::work::WorkArgs;
use super::worker::{ClaimArgs, EffectArgs, ReceiptArgs, ReleaseArgs, RenewArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0  fine
  1  the run failed or was cancelled, there is no more work, or a drill found a fault
  2  wrong usage, a bad plan, or a folder that is not a ledger
  3  waiting for somebody, or stopped with work left: run again to go on
  4  the ledger is damaged
  5  another process holds the ledger and serves nobody, or a worker of an ended runner cannot be ended
  6  the ledger's rules refuse it
  7  input or output failed, or the disk is full

Examples:
  ledger run plan.yaml --worker './agent.sh'       start a run, or go on with it
  ledger run plan.yaml --stub                      the same with canned answers, for free
  ledger init && ledger plan propose plan.yaml     a run that others do the steps of:
  ledger work -- ./agent.sh                        claim, do, report, until there is no more work
  ledger claim --json                              the same by hand: claim a step ...
  ledger receipt 412 --output '\"done\"' --next    ... report on it, and claim the next one
  ledger drill plan.yaml --kill-at 37              kill a run half-way and prove that it resumes
  ledger questions                                 what waits for somebody, and what to type
  ledger accept my-plan build --by ana             say that a step's criteria hold";

/// A crash-safe ledger for agent plans: deals steps, records receipts, forgets nothing.
#[derive(Debug, Parser)]
#[command(name = "ledger", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) task: Task,
}

#[derive(Debug, Subcommand)]
pub(super) enum Task {
    /// Make an empty ledger
    Init(InitArgs),
    /// Hold a ledger and carry out what other processes want of it
    Serve(ServeArgs),
    /// Run a plan, or go on with a run of it
    Run(RunArgs),
    /// Do steps by a command: claim, do, report, until there is no more work
    Work(WorkArgs),
    /// Claim a step for a worker
    Claim(ClaimArgs),
    /// Keep a claimed step for longer
    Renew(RenewArgs),
    /// Give a claimed step back
    Release(ReleaseArgs),
    /// Report on a claimed step, and perhaps claim the next one
    Receipt(ReceiptArgs),
    /// Say that a worker is about to do something to the world, or has done it
    Effect(EffectArgs),
    /// Kill a run of a plan half-way, resume it, and check that nothing was lost or done twice
    Drill(DrillArgs),
    /// Look into a ledger: what happened, what is next, what is damaged
    Inspect(InspectArgs),
    /// How runs stand: how far they are, what goes on, what needs somebody
    Status(StatusArgs),
    /// Say that the text criteria of a reported step, or of the plan, hold
    Accept(JudgeArgs),
    /// Say that the text criteria of a reported step, or of the plan, do not hold
    Reject(JudgeArgs),
    /// List what waits for somebody, and what to type
    Questions(QuestionsArgs),
    /// Answer a question, decide about a failure, or say what became of a lost attempt
    Answer(AnswerArgs),
    /// Decide about a failed step, where the plan leaves that to others
    Decide(DecideArgs),
    /// Let failed steps be tried again
    Retry(RetryArgs),
    /// Do without a step
    Skip(SkipArgs),
    /// Set a variable of a run
    Set(SetArgs),
    /// Print a variable of a run
    Get(GetArgs),
    /// Say something that is to be read beside the records
    Note(NoteArgs),
    /// Say what is to be done next, and why
    Next(NextArgs),
    /// Turn what is due into records: leases, delays, deadlines
    Tick(TickArgs),
    /// Check, compare and complete plan files; review and approve the versions of a run's plan
    Plan(PlanArgs),
    /// Deal nothing more in a run for now
    Pause(PauseArgs),
    /// Go on with a run that pauses
    Resume(ResumeArgs),
    /// End a run
    Cancel(CancelArgs),
    /// Show what was spent and may be, or set what may be
    Budget(BudgetArgs),
    /// Begin a run as another one was at some record, or before some step
    Fork(ForkArgs),
    /// Set or lift a cap on how many attempts may be in flight at once
    Cap(CapArgs),
    /// Write a ledger as JSON Lines: records, blobs, chain
    Export(ExportArgs),
    /// Make a new ledger of what `export` wrote, with the same chain
    Import(ImportArgs),
    /// Save what can be read of a damaged ledger, or go on behind what cannot be judged
    Recover(RecoverArgs),
    /// List, check and collect the outputs that lie beside the log
    Blobs(BlobsArgs),
    /// Keep the state as it is now, so that opening and looking back start from here
    Snapshot(SnapshotArgs),
    /// Put the oldest segments of a ledger, whose runs have ended, into one file
    Archive(ArchiveArgs),
    /// Remove the oldest segments of a ledger; two snapshots vouch for the rest
    Prune(PruneArgs),
    /// Crash the engine itself on a simulated disk, everywhere, and judge what is left
    Lab(LabArgs),
    /// Check every byte of a ledger, and name all that is damaged
    Verify(VerifyArgs),
    /// Print the last durable record and its chain value, for keeping elsewhere
    Root(RootArgs),
    /// Print the completions of a shell
    Completions(CompletionsArgs),
    /// Print the manual, or write its pages into a folder
    Man(ManArgs),
}

const RUN_EXAMPLES: &str = "\
Examples:
  ledger run plan.yaml                             steps with commands of their own
  ledger run plan.yaml --worker 'python3 agent.py' an agent for all other steps
  ledger run tasks.json --stub --json              a task-master file, canned answers, JSON Lines
  ledger run plan.yaml --retry-failed              after the causes of failures are gone
  ledger run plan.yaml --replan --reason 'scope'   the file has changed: go on with the new plan
  ledger run plan.yaml --worker ./agent.sh --judge ./judge.sh --planner ./planner.sh --wait

A worker gets its task as JSON on standard input and in LEDGER_* variables; what it prints is its
output. The first Ctrl-C deals no more and waits for what runs, the second ends the workers.";

/// `ledger run`.
#[derive(Debug, Args)]
#[command(after_help = RUN_EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag that the user may give")]
pub(super) struct RunArgs {
    /// The plan: our own YAML, JSON or Markdown, or a file of task-master, Ralph, beads, spec-kit,
    /// OpenSpec, any JSON list of tasks, any Markdown with tasks (format/plan-files.md)
    #[arg(value_name = "PLAN")]
    pub(super) plan: PathBuf,
    /// The ledger's folder; created when it is not there
    #[arg(long, value_name = "DIR", default_value = ".ledger", env = "LEDGER_DIR")]
    #[arg(hide_env_values = true)]
    pub(super) ledger: PathBuf,
    /// The run's name [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    pub(super) run: Option<String>,
    /// Shell command that does the steps which have no command of their own
    #[arg(long, value_name = "CMD", conflicts_with = "stub")]
    pub(super) worker: Option<String>,
    /// Let every step be answered at once, for free, without doing anything
    #[arg(long)]
    pub(super) stub: bool,
    /// How many workers may run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_parallel: u16,
    /// Kill this process with SIGKILL when step number N is in flight, to test that it resumes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kill_at: Option<u32>,
    /// Deal every step, also those that the file marks as done
    #[arg(long)]
    pub(super) fresh: bool,
    /// Who judges text criteria [default: judge; trust for imported files and --stub]
    #[arg(long, value_name = "WHO")]
    pub(super) text: Option<TextChoice>,
    /// Deal nothing more once a step has failed for good
    #[arg(long)]
    pub(super) fail_fast: bool,
    /// Go on with the file's plan where it differs from the run's
    #[arg(long)]
    pub(super) replan: bool,
    /// Why there is a new plan
    #[arg(long, value_name = "TEXT", requires = "replan")]
    pub(super) reason: Option<String>,
    /// Let failed steps be tried again
    #[arg(long)]
    pub(super) retry_failed: bool,
    /// Wait for people and deadlines too, instead of returning with exit code 3: answer from elsewhere
    #[arg(long)]
    pub(super) wait: bool,
    #[command(flatten)]
    pub(super) helpers: HelperArgs,
    /// Print what happens as JSON Lines on standard output
    #[arg(long)]
    pub(super) json: bool,
    /// Print only the summary, and what is wrong
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Count executions of stub workers in this file
    #[arg(long, value_name = "FILE", hide = true, requires = "stub")]
    pub(super) tally: Option<PathBuf>,
}

/// Who judges text criteria.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum TextChoice {
    /// Nobody: the worker's word is taken, and counted
    Trust,
    /// Somebody, with `ledger accept` and `ledger reject`
    Judge,
}

const DRILL_EXAMPLES: &str = "\
Examples:
  ledger drill plan.yaml                           kill the run at step 37
  ledger drill tasks.json --kill-at 100            somewhere else
  ledger drill plan.yaml --keep drill              keep both ledgers, to look at them
  ledger drill plan.yaml --every-crash             crash at every change of the disk, and resume
  ledger drill plan.yaml --every-crash --agents flaky --seed 7";

/// Who works in a drill of every crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Agents {
    /// They answer at once, always the same.
    Steady,
    /// They fail at the first attempt of some steps.
    Flaky,
}

impl Agents {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Flaky => "flaky",
        }
    }
}

/// `ledger drill`.
#[derive(Debug, Args)]
#[command(after_help = DRILL_EXAMPLES)]
pub(super) struct DrillArgs {
    /// The plan: our own YAML, JSON or Markdown, or a file of task-master, Ralph, beads, spec-kit,
    /// OpenSpec, any JSON list of tasks, any Markdown with tasks (format/plan-files.md)
    #[arg(value_name = "PLAN")]
    pub(super) plan: PathBuf,
    /// The number of the step that is in flight when the run is killed [default: 37, or the one in the
    /// middle of a plan that has fewer]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) kill_at: Option<u32>,
    /// How many stub workers may run at once
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_parallel: u16,
    /// Keep the ledgers in this folder, which is created and must be empty
    #[arg(long, value_name = "DIR")]
    pub(super) keep: Option<PathBuf>,
    /// Crash at every change that the run makes to the disk, a simulated one, and resume each time
    #[arg(long, conflicts_with_all = ["kill_at", "keep"])]
    pub(super) every_crash: bool,
    /// Who works in `--every-crash`: flaky agents fail at the first attempt of some steps
    #[arg(long, value_name = "WHO", default_value = "steady", requires = "every_crash")]
    pub(super) agents: Agents,
    /// What `--every-crash` leaves to chance depends on this number alone
    #[arg(long, value_name = "N", default_value_t = 1, requires = "every_crash")]
    pub(super) seed: u64,
    /// Try only the crash at this change, counted from 0
    #[arg(long, value_name = "K", requires = "every_crash")]
    pub(super) at: Option<usize>,
    /// Print the checks as JSON Lines
    #[arg(long)]
    pub(super) json: bool,
}

const JUDGE_EXAMPLES: &str = "\
Examples:
  ledger accept my-plan build --by ana --evidence 'read the diff'
  ledger accept my-plan '#37' --by ana             a step by its number
  ledger reject my-plan plan --by ana              the plan's own criteria";

/// `ledger accept` and `ledger reject`.
#[derive(Debug, Args)]
#[command(after_help = JUDGE_EXAMPLES)]
pub(super) struct JudgeArgs {
    #[command(flatten)]
    pub(super) place: Where,
    /// The run's name
    pub(super) run: String,
    /// The step's id or number (#37), or `plan` for the plan's own criteria
    pub(super) step: String,
    /// Who says so: never the worker itself
    #[arg(long, value_name = "WHO")]
    pub(super) by: String,
    /// On what grounds
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) evidence: String,
}

const CAP_EXAMPLES: &str = "\
Examples:
  ledger cap --global 8
  ledger cap --run my-plan 2
  ledger cap --owner reviewer none";

/// `ledger cap`.
#[derive(Debug, Args)]
#[command(after_help = CAP_EXAMPLES)]
pub(super) struct CapArgs {
    #[command(flatten)]
    pub(super) place: Where,
    #[command(flatten)]
    pub(super) scope: ScopeArgs,
    /// How many attempts may be in flight at once, or `none` to lift the cap
    #[arg(value_name = "N|none", value_parser = limit)]
    pub(super) limit: Limit,
    /// Who says so
    #[arg(long, value_name = "WHO", default_value = "operator")]
    pub(super) by: String,
}

/// What a cap holds for.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(super) struct ScopeArgs {
    /// The whole ledger
    #[arg(long)]
    pub(super) global: bool,
    /// One run, by name
    #[arg(long, value_name = "RUN")]
    pub(super) run: Option<String>,
    /// One owner, over all runs
    #[arg(long, value_name = "OWNER")]
    pub(super) owner: Option<String>,
    /// One tag or resource, over all runs
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Option<String>,
}

const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  ledger snapshot                                  of .ledger, or of the one in $LEDGER_DIR
  ledger snapshot work.ledger --json | jq -r .file

Snapshots are made on the way, too: this one is for whoever is about to open a ledger often, or to
prune it.";

/// `ledger snapshot`.
#[derive(Debug, Args)]
#[command(after_help = SNAPSHOT_EXAMPLES)]
pub(super) struct SnapshotArgs {
    #[command(flatten)]
    pub(super) folder: Folder,
    /// Print the answer as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// A cap, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limit(pub(super) Option<u32>);

fn limit(text: &str) -> Result<Limit, String> {
    match text {
        "none" => Ok(Limit(None)),
        _ => text
            .parse()
            .ok()
            .filter(|limit| *limit > 0)
            .map(|limit| Limit(Some(limit)))
            .ok_or_else(|| "expected a number from 1, or `none`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the command line is consistent in itself, and its mistakes are caught.

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |line: &str| Cli::try_parse_from(line.split(' ')).is_err();
        assert!(refused("ledger run p.yaml --stub --worker x"));
        assert!(refused("ledger run p.yaml --max-parallel 0"));
        assert!(refused("ledger run p.yaml --reason x"));
        assert!(refused("ledger cap --global --run r 4"));
        assert!(refused("ledger cap 4"));
        assert!(refused("ledger cap --global 0"));
        assert!(!refused("ledger cap --owner o none"));
        assert!(!refused("ledger answer r s did-not-happen --by me"));
        assert!(!refused("ledger answer 12 yes --by me"));
        assert!(refused("ledger answer 12 --by me"));
        assert!(refused("ledger answer a b c d --by me"));
        assert!(refused("ledger fork r --at 3 --step s --name n"));
        assert!(refused("ledger fork r --name n"));
        assert!(refused("ledger budget r --tokens many"));
    }
}
