//! The command line: the tree of commands, and the help that they share.

use clap::{Parser, Subcommand};

use crate::commands::accept::JudgeArgs;
use crate::commands::answer::AnswerArgs;
use crate::commands::archive::ArchiveArgs;
use crate::commands::blobs::BlobsArgs;
use crate::commands::budget::BudgetArgs;
use crate::commands::cancel::CancelArgs;
use crate::commands::cap::CapArgs;
use crate::commands::claim::ClaimArgs;
use crate::commands::completions::CompletionsArgs;
use crate::commands::decide::DecideArgs;
use crate::commands::drill::DrillArgs;
use crate::commands::effect::EffectArgs;
use crate::commands::export::ExportArgs;
use crate::commands::fork::ForkArgs;
use crate::commands::get::GetArgs;
use crate::commands::import::ImportArgs;
use crate::commands::init::InitArgs;
use crate::commands::inspect::{InspectArgs, StatusArgs};
use crate::commands::lab::LabArgs;
use crate::commands::man::ManArgs;
use crate::commands::next::NextArgs;
use crate::commands::note::NoteArgs;
use crate::commands::pause::PauseArgs;
use crate::commands::plan::PlanArgs;
use crate::commands::prune::PruneArgs;
use crate::commands::questions::QuestionsArgs;
use crate::commands::receipt::ReceiptArgs;
use crate::commands::recover::RecoverArgs;
use crate::commands::release::ReleaseArgs;
use crate::commands::renew::RenewArgs;
use crate::commands::resume::ResumeArgs;
use crate::commands::retry::RetryArgs;
use crate::commands::root::RootArgs;
use crate::commands::run::RunArgs;
use crate::commands::serve::ServeArgs;
use crate::commands::set::SetArgs;
use crate::commands::skip::SkipArgs;
use crate::commands::snapshot::SnapshotArgs;
use crate::commands::tick::TickArgs;
use crate::commands::verify::VerifyArgs;
use crate::commands::work::WorkArgs;

const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  the run failed or was cancelled, there is no more work, or a drill found a fault
  2  wrong usage, an invalid plan, or a folder that is not a ledger
  3  the run waits for a person, a worker or a timer, or stopped with work left
  4  the ledger is damaged
  5  the ledger is locked by another process that runs no server, or a worker of an earlier
     runner cannot be killed
  6  rejected by the ledger's rules
  7  input or output failed, or the disk is full

Examples:
  ledger run plan.yaml --worker './agent.sh'       start a run, or continue it
  ledger run plan.yaml --stub                      a rehearsal with stub workers, at no cost
  ledger init && ledger plan propose plan.yaml     start a run for other workers
  ledger work -- ./agent.sh                        claim, work, report, until no work is left
  ledger claim --json                              claim one step as a worker
  ledger receipt 412 --output '\"done\"' --next    report its result and claim the next step
  ledger drill plan.yaml --kill-at 37              kill a run halfway and check that it resumes
  ledger questions                                 list what waits for a person
  ledger accept my-plan build --by ana             confirm that a step's criteria hold";

/// A crash-safe ledger for agent plans: dispatches steps, records receipts, loses nothing
#[derive(Debug, Parser)]
#[command(name = "ledger", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Create an empty ledger
    Init(InitArgs),
    /// Open a ledger and serve the commands of other processes
    Serve(ServeArgs),
    /// Run a plan, or continue a run of it
    Run(RunArgs),
    /// Work on steps with a command: claim, work, report, until no work is left
    Work(WorkArgs),
    /// Claim a step for a worker
    Claim(ClaimArgs),
    /// Renew the lease of a claimed step
    Renew(RenewArgs),
    /// Release a claimed step
    Release(ReleaseArgs),
    /// Report on a claimed step, and optionally claim the next one
    Receipt(ReceiptArgs),
    /// Record the start or end of a side effect
    Effect(EffectArgs),
    /// Kill a run halfway, resume it, and check that nothing was lost or done twice
    Drill(DrillArgs),
    /// Inspect a ledger: its log, runs, next actions and damage
    Inspect(InspectArgs),
    /// Show the status of runs
    Status(StatusArgs),
    /// Confirm that the text criteria of a step, or of the plan, hold
    Accept(JudgeArgs),
    /// State that the text criteria of a step, or of the plan, do not hold
    Reject(JudgeArgs),
    /// List the items that wait for a person, with the commands that resolve them
    Questions(QuestionsArgs),
    /// Answer a question, resolve a failure, or report the outcome of a lost attempt
    Answer(AnswerArgs),
    /// Decide about a failed attempt, for plans with an external decider
    Decide(DecideArgs),
    /// Retry failed steps
    Retry(RetryArgs),
    /// Skip a step
    Skip(SkipArgs),
    /// Set a variable of a run
    Set(SetArgs),
    /// Print a variable of a run
    Get(GetArgs),
    /// Attach a note
    Note(NoteArgs),
    /// Show the next action of a run, and the reason
    Next(NextArgs),
    /// Record expired leases, delays and deadlines
    Tick(TickArgs),
    /// Check, compare and convert plan files; review and approve the versions of a run's plan
    Plan(PlanArgs),
    /// Stop dispatching the steps of a run
    Pause(PauseArgs),
    /// Unpause a run
    Resume(ResumeArgs),
    /// Cancel a run
    Cancel(CancelArgs),
    /// Show or change the budget of a run or of the ledger
    Budget(BudgetArgs),
    /// Fork a run from its state at a record, or before a step
    Fork(ForkArgs),
    /// Limit how many attempts may be in flight at once
    Cap(CapArgs),
    /// Write a ledger as JSON Lines: records, blobs, chain
    Export(ExportArgs),
    /// Create a ledger from an export, with the same chain
    Import(ImportArgs),
    /// Salvage the readable records of a damaged ledger, or open one whose end is ambiguous
    Recover(RecoverArgs),
    /// List, check and collect the large outputs that are stored beside the log
    Blobs(BlobsArgs),
    /// Write a snapshot of the current state
    Snapshot(SnapshotArgs),
    /// Archive the oldest segments of finished runs
    Archive(ArchiveArgs),
    /// Delete the oldest segments
    Prune(PruneArgs),
    /// Crash the engine on a simulated disk and check its guarantees
    Lab(LabArgs),
    /// Check every byte of a ledger, and list all damage
    Verify(VerifyArgs),
    /// Print the last durable record and its chain value, to store elsewhere
    Root(RootArgs),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Print the manual, or write its pages into a folder
    Man(ManArgs),
}

#[cfg(test)]
mod tests {
    //! Goal: the command line is consistent, and contradictory options are rejected.

    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn contradictory_options_are_rejected() {
        let rejected = |line: &str| Cli::try_parse_from(line.split(' ')).is_err();
        assert!(rejected("ledger run p.yaml --stub --worker x"));
        assert!(rejected("ledger run p.yaml --max-parallel 0"));
        assert!(rejected("ledger run p.yaml --reason x"));
        assert!(rejected("ledger cap --global --run r 4"));
        assert!(rejected("ledger cap 4"));
        assert!(rejected("ledger cap --global 0"));
        assert!(!rejected("ledger cap --owner o none"));
        assert!(!rejected("ledger answer r s did-not-happen --by me"));
        assert!(!rejected("ledger answer 12 yes --by me"));
        assert!(rejected("ledger answer 12 --by me"));
        assert!(rejected("ledger answer a b c d --by me"));
        assert!(rejected("ledger fork r --at 3 --step s --name n"));
        assert!(rejected("ledger fork r --name n"));
        assert!(rejected("ledger budget r --tokens many"));
    }
}
