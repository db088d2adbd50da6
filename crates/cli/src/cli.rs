//! The command line: one table of the commands, with the group, the help, the arguments and the function
//! of each. A command that is a request names the request, which has the help, too. `help` arranges the
//! help. A command with `if` exists only in programs with that feature.

use std::io::{self, Write};

use clap::{Command, CommandFactory as _, Parser, Subcommand};

use plan_ledger::{Environment, Ruling};

use crate::commands::help as help_command;
#[cfg(feature = "store")]
use crate::commands::store;
use crate::commands::{
    answer, archive, blobs, budget, cancel, claim, completions, decide, drill, erase, export, get,
    hook, import, init, inspect, lab, man, plan, prime, prune, receipt, recover, release, report,
    resume, retry, root, run, serve, set, setup, verify, work,
};
use crate::help::{self, CommandGroup};
use crate::interfaces::{http, mcp};
use crate::options::{FolderRequestArgs, RequestArgs, WorkerRequestArgs};
use crate::output::render::{ColorChoice, with_pager};
use crate::output::{Code, Failure};
use crate::requests::{
    CancelRequest, CapRequest, EffectRequest, ForkRequest, JudgeRequest, NoteRequest, PauseRequest,
    RenewRequest, SkipRequest, SnapshotRequest, TickRequest, UnpauseRequest,
};

/// A crash-safe ledger for agent plans: dispatches steps, records receipts, loses nothing
#[derive(Debug, Parser)]
#[command(name = "ledger", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// Color the output: auto, always or never
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    pub(crate) color: ColorChoice,
    /// Print JSON Lines instead of text, also for errors (format/cli-json.md)
    #[arg(long, global = true, display_order = 900)]
    // The arguments of a command have it as `AsJson`.
    json: bool,
    /// Print results, warnings and errors, and no notes
    #[arg(long, short, global = true, display_order = 901)]
    pub(crate) quiet: bool,
    /// Write to a ledger where file locks may not exclude other writers
    #[arg(long, global = true, hide = true)]
    pub(crate) allow_unsafe_locks: bool,
    /// Write to a ledger that lacks records which it had before
    #[arg(long, global = true, hide = true)]
    pub(crate) accept_rollback: bool,
    /// Keep the bytes read from a store in this folder, and read them there the next time
    #[cfg(feature = "store")]
    #[arg(long, global = true, hide = true, value_name = "DIR", env = "LEDGER_STORE_CACHE")]
    pub(crate) cache: Option<std::path::PathBuf>,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

/// The command line with its arranged help.
pub(crate) fn program() -> Command {
    help::arrange(Cli::command(), &GROUPS)
}

macro_rules! commands {
    ($(
        $heading:literal:
        { $($(#[$doc:meta])* $variant:ident($args:ty) => $run:expr;)* }
        {
            $($(#[$rest_doc:meta])* $rest:ident($rest_args:ty) $(if $feature:literal)? => $rest_run:expr;)*
        }
    )*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum CliCommand {
            $(
                $($(#[$doc])* $variant($args),)*
                $($(#[$rest_doc])* $(#[cfg(feature = $feature)])? $rest($rest_args),)*
            )*
        }

        /// The commands in the groups of the help: the common ones, then those that only
        /// `ledger help --all` lists.
        const GROUPS: [CommandGroup; [$($heading),*].len()] = [$(
            CommandGroup {
                heading: $heading,
                common: &[$(stringify!($variant)),*],
                rest: &[$($(#[cfg(feature = $feature)])? stringify!($rest)),*],
            },
        )*];

        impl CliCommand {
            /// Runs the command.
            pub(crate) fn run(&self) -> Result<Code, Failure> {
                match self {
                    $(
                        $(Self::$variant(args) => call(args, $run),)*
                        $($(#[cfg(feature = $feature)])? Self::$rest(args) => call(args, $rest_run),)*
                    )*
                }
            }
        }
    };
}

fn show_status(args: &inspect::StatusArgs) -> Result<Code, Failure> {
    let print = |out: &mut dyn Write| inspect::status(args, &Environment::system(), out);
    if args.is_endless() { print(&mut io::stdout().lock()) } else { with_pager(print) }
}

fn show_next(args: &inspect::NextArgs) -> Result<Code, Failure> {
    inspect::next(args, &Environment::system(), &mut io::stdout().lock())
}

fn show_questions(args: &inspect::QuestionsArgs) -> Result<Code, Failure> {
    inspect::questions(args, &Environment::system(), &mut io::stdout().lock())
}

fn show_logs(args: &inspect::LogsArgs) -> Result<Code, Failure> {
    let print = |out: &mut dyn Write| inspect::logs(args, &Environment::system(), out);
    if args.is_endless() { print(&mut io::stdout().lock()) } else { with_pager(print) }
}

fn show_view(args: &inspect::InspectArgs) -> Result<Code, Failure> {
    let print = |out: &mut dyn Write| inspect::inspect(args, &Environment::system(), out);
    if args.is_endless() { print(&mut io::stdout().lock()) } else { with_pager(print) }
}

fn write_export(args: &export::ExportArgs) -> Result<Code, Failure> {
    export::export(args, &Environment::system(), &mut io::stdout().lock())
}

fn judge(args: &RequestArgs<JudgeRequest>, ruling: Ruling) -> Result<Code, Failure> {
    args.ledger.execute(JudgeRequest { ruling, ..args.request.clone() })
}

/// Calls the function of a command; with it the compiler knows the type of a closure's argument.
fn call<A>(args: &A, run: impl FnOnce(&A) -> Result<Code, Failure>) -> Result<Code, Failure> {
    run(args)
}

commands! {
    "Everyday": {
        /// Run a plan, or continue a run of it
        Run(Box<run::RunArgs>) => |args| run::run(args);
        /// Continue where the last runner stopped: start it again
        Resume(resume::ResumeArgs) => resume::resume;
        /// Show the status of runs
        Status(inspect::StatusArgs) => show_status;
        /// Show the output of workers, during their work and afterwards
        Logs(inspect::LogsArgs) => show_logs;
        /// List the next actions that wait for a person, with the commands that resolve them
        Questions(inspect::QuestionsArgs) => show_questions;
        /// Answer a question, resolve a failure, or report the outcome of a lost attempt
        Answer(answer::AnswerArgs) => answer::answer;
        /// Confirm that the text criteria of a step, or of the plan, hold
        Accept(RequestArgs<JudgeRequest>) => |args| judge(args, Ruling::Pass);
        /// State that the text criteria of a step, or of the plan, do not hold
        Reject(RequestArgs<JudgeRequest>) => |args| judge(args, Ruling::Fail);
    } {
        /// Show the next actions of runs: for you, for a runner or a worker, and those that need
        /// only time
        Next(inspect::NextArgs) => show_next;
        /// Write a run as one HTML file, with a slider over its records
        Report(report::ReportArgs) => report::report;
    }
    "Plans": {
        /// Check, compare and convert plan files; review and approve the versions of a run's plan
        Plan(plan::PlanArgs) => plan::plan;
    } {}
    "Control a run": {
        Pause(RequestArgs<PauseRequest>) => RequestArgs::execute;
        Unpause(RequestArgs<UnpauseRequest>) => RequestArgs::execute;
        Cancel(RequestArgs<CancelRequest>) => cancel::cancel;
        /// Retry failed steps
        Retry(retry::RetryArgs) => retry::retry;
        Skip(RequestArgs<SkipRequest>) => RequestArgs::execute;
        /// Show or change the budget of a run or of the ledger
        Budget(budget::BudgetArgs) => budget::budget;
    } {
        /// Set a variable of a run
        Set(set::SetArgs) => set::set;
        /// Print a variable of a run
        Get(get::GetArgs) => get::get;
        Note(WorkerRequestArgs<NoteRequest>) => RequestArgs::execute_as_worker;
        Cap(RequestArgs<CapRequest>) => RequestArgs::execute;
        Fork(RequestArgs<ForkRequest>) => RequestArgs::execute;
        /// Decide about a failed attempt, for plans with an external decider
        Decide(decide::DecideArgs) => decide::decide;
    }
    "Look closer": {
        /// Inspect a ledger: its log, runs, next actions and damage
        Inspect(inspect::InspectArgs) => show_view;
    } {
        /// List, check and collect the large outputs that are stored beside the log
        Blobs(blobs::BlobsArgs) => blobs::blobs;
        /// Print the last durable record and its chain value, to store elsewhere
        Root(root::RootArgs) => root::root;
    }
    "Your own loop": {
        /// Work on steps with a command: claim, work, report, until no work is left
        Work(work::WorkArgs) => work::work;
        /// Claim a step for a worker
        Claim(claim::ClaimArgs) => claim::claim;
        /// Report on a claimed step, and optionally claim the next one
        Receipt(Box<receipt::ReceiptArgs>) => |args| receipt::receipt(args);
    } {
        /// Open a ledger and serve the commands of other processes
        Serve(serve::ServeArgs) => http::serve;
        Renew(WorkerRequestArgs<RenewRequest>) => RequestArgs::execute_as_worker;
        /// Release a claimed step
        Release(release::ReleaseArgs) => release::release;
        Effect(WorkerRequestArgs<EffectRequest>) => RequestArgs::execute_as_worker;
        Tick(RequestArgs<TickRequest>) => RequestArgs::execute;
    }
    "Agent hosts": {
        /// Add the ledger to the settings of an agent host
        Setup(setup::SetupArgs) => setup::setup;
    } {
        /// Print the facts that an agent needs to continue, in at most 2 KiB
        Prime(prime::PrimeArgs) => prime::prime;
        /// Serve the tools of the Model Context Protocol on standard input and output
        Mcp(mcp::McpArgs) => mcp::mcp;
        /// Answer an event of an agent host
        Hook(hook::HookArgs) => hook::hook;
    }
    "Keep it safe": {
        /// Check every byte of a ledger, and list all damage
        Verify(verify::VerifyArgs) => verify::verify;
        /// Write a ledger as JSON Lines (records, blobs, chain), as a SQLite file, or as traces
        Export(export::ExportArgs) => write_export;
    } {
        /// Create a ledger from an export, with the same chain
        Import(import::ImportArgs) => import::import;
        /// Salvage the readable records of a damaged ledger, or open a ledger with an ambiguous end
        Recover(recover::RecoverArgs) => recover::recover;
        /// Archive the oldest segments of finished runs
        Archive(archive::ArchiveArgs) => archive::archive;
        /// Delete the oldest segments
        Prune(prune::PruneArgs) => prune::prune;
        /// Erase values: outputs, variables, blobs, notes
        Erase(erase::EraseArgs) => erase::erase;
        Snapshot(FolderRequestArgs<SnapshotRequest>) => RequestArgs::execute_in_folder;
        /// Copy a ledger to an object store, while another process writes it
        Replicate(store::ReplicateArgs) if "store" => store::replicate;
        /// Make a folder with the ledger of an object store
        Restore(store::RestoreArgs) if "store" => store::restore;
        /// Test an object store, or show the ledger in one
        Store(store::StoreArgs) if "store" => |args| store::store(args, inspect::record_json);
    }
    "More": {
        /// Create an empty ledger
        Init(init::InitArgs) => init::init;
        /// Kill a run halfway, resume it, and check that nothing was lost or done twice
        Drill(drill::DrillArgs) => drill::drill;
        /// Show the help of a command or of a topic
        Help(help_command::HelpArgs) => |args| help_command::help(args, program(), &GROUPS);
    } {
        /// Crash the engine on a simulated disk and check its guarantees
        Lab(lab::LabArgs) => lab::lab;
        /// Print the completions for a shell
        Completions(completions::CompletionsArgs) => |args| completions::completions(args, program());
        /// Print the manual, or write its pages into a folder
        Man(man::ManArgs) => |args| man::man(args, program());
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the command line is consistent, and contradictory options are rejected.

    use super::*;
    use crate::commands::store::source::expect_readable;

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_of_the_help() {
        help::check_groups(&Cli::command(), &GROUPS);
    }

    #[test]
    fn suggested_commands_exist() {
        help::check_suggestions(&Cli::command());
    }

    /// The paths of all commands, `plan review` and the like, without `ledger`.
    fn commands(of: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
        for command in of.get_subcommands().filter(|command| command.get_name() != "help") {
            let path = format!("{path} {}", command.get_name()).trim().to_owned();
            commands(command, &path, found);
            found.push((path, command.clone()));
        }
    }

    fn all_commands() -> Vec<(String, clap::Command)> {
        let mut program = program();
        program.build();
        let mut found = Vec::new();
        commands(&program, "", &mut found);
        found
    }

    /// A message names the ledger in exactly the commands that take it.
    #[test]
    #[cfg(not(feature = "store"))]
    fn commands_that_take_a_ledger_are_known() {
        for (path, command) in all_commands() {
            if command.has_subcommands() && path != "inspect" {
                continue;
            }
            let takes = command.get_arguments().any(|arg| arg.get_long() == Some("ledger"));
            assert_eq!(takes, crate::protocol::takes_ledger(&path), "{path}");
        }
    }

    /// Whatever takes a run as an argument takes it with `--run`, too.
    #[test]
    fn every_command_about_a_run_takes_it_as_an_option() {
        let mut count = 0;
        for (path, command) in all_commands() {
            let is_run = |arg: &&clap::Arg| {
                let name = arg.get_value_names().and_then(|names| names.first());
                name.is_some_and(|name| *name == "RUN" || name.starts_with("[RUN]"))
            };
            if command.get_positionals().any(|arg| is_run(&arg)) {
                count += 1;
                assert!(command.get_arguments().any(|arg| arg.get_long() == Some("run")), "{path}");
            }
        }
        assert!(count > 20, "{count}");
    }

    /// The commands and subcommands, and the places where one has an option. Both limits may only go down.
    #[test]
    #[cfg(not(feature = "store"))]
    fn command_line_only_shrinks() {
        const COMMANDS_MAX: usize = 87;
        const OPTION_PLACES_MAX: usize = 407;
        let mut found = Vec::new();
        commands(&Cli::command(), "", &mut found);
        let places: usize = found.iter().map(|(_, command)| command.get_opts().count()).sum();
        assert!(found.len() <= COMMANDS_MAX, "{} commands", found.len());
        assert!(places <= OPTION_PLACES_MAX, "{places} places of options");
    }

    /// Every command takes them, with the same meaning.
    #[test]
    fn json_and_quiet_are_defined_once() {
        for (path, command) in all_commands() {
            for option in ["json", "quiet"] {
                let is_same = |arg: &clap::Arg| arg.is_global_set();
                let found = command.get_arguments().find(|arg| arg.get_long() == Some(option));
                assert!(found.is_some_and(is_same), "{path} --{option}");
            }
        }
    }

    /// Regression: `ledger claim --sevrer URL` got no suggestion.
    #[test]
    fn mistyped_options_are_answered_with_their_names() {
        let mut program = program();
        program.build();
        help::check_options(&program);
    }

    #[test]
    #[cfg(feature = "store")]
    fn options_of_stores_are_known_without_them() {
        help::check_table(&Cli::command());
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
        assert!(rejected("ledger answer a b c d --by me"));
        assert!(rejected("ledger fork r --at 3 --step s --name n"));
        assert!(rejected("ledger fork r --name n"));
        assert!(rejected("ledger budget r --tokens many"));
    }

    /// Why the ledger of a command line may not be in a store.
    fn store_refusal(line: &str) -> Option<String> {
        let matches = program().try_get_matches_from(line.split(' ')).unwrap();
        expect_readable(&program(), &matches).err().map(|failure| failure.to_string())
    }

    #[test]
    fn only_commands_that_read_accept_a_store() {
        for line in [
            "ledger status s3://b/x",
            "ledger inspect s3://b/x",
            "ledger inspect s3://b/x records --from 2",
            "ledger inspect records --ledger s3://b/x",
            "ledger verify s3://b/x",
            "ledger export s3://b/x",
            "ledger report --html x.html --ledger s3://b/x",
            "ledger plan export r --ledger s3://b/x",
            "ledger blobs s3://b/x",
            "ledger status .ledger --watch",
            "ledger pause --ledger .ledger",
        ] {
            assert_eq!(store_refusal(line), None, "{line}");
        }
        for line in [
            "ledger run p.yaml --ledger s3://b/x",
            "ledger init --ledger s3://b/x",
            "ledger pause --ledger s3://b/x",
            "ledger claim --ledger s3://b/x --worker w",
            "ledger archive s3://b/x --to x.tar",
            "ledger prune s3://b/x --ended",
            "ledger snapshot s3://b/x",
            "ledger recover s3://b/x --export y",
            "ledger erase s3://b/x --record 3",
            "ledger serve --ledger s3://b/x",
            "ledger resume --ledger s3://b/x",
            "ledger blobs s3://b/x --collect",
            "ledger status s3://b/x --watch",
            "ledger logs --ledger s3://b/x -f",
        ] {
            let refused = store_refusal(line).unwrap_or_else(|| panic!("{line} is not refused"));
            assert!(refused.contains("s3://b/x"), "{line}: {refused}");
        }
        let secret = store_refusal("ledger pause --ledger s3://KEY:secret@b/x").unwrap();
        assert!(!secret.contains("secret"), "{secret}");
    }
}
