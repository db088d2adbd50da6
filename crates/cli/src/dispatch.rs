//! Calls the command that the command line names.

use std::io;

use clap::CommandFactory as _;

use plan_ledger::Environment;

use crate::cli::{Cli, CliCommand};
use crate::commands::{
    accept, answer, archive, blobs, budget, cancel, cap, claim, completions, decide, drill, effect,
    export, fork, get, import, init, inspect, lab, man, next, note, pause, plan, prune, questions,
    receipt, recover, release, renew, resume, retry, root, run, serve, set, skip, snapshot, tick,
    verify, work,
};
use crate::output::{Code, Failure};

pub(crate) fn dispatch(command: CliCommand) -> Result<Code, Failure> {
    match command {
        CliCommand::Init(args) => init::init(&args),
        CliCommand::Serve(args) => serve::serve(&args),
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Work(args) => work::work(&args),
        CliCommand::Claim(args) => claim::claim(&args),
        CliCommand::Renew(args) => renew::renew(&args),
        CliCommand::Release(args) => release::release(&args),
        CliCommand::Receipt(args) => receipt::receipt(&args),
        CliCommand::Effect(args) => effect::effect(&args),
        CliCommand::Drill(args) => drill::drill(&args),
        CliCommand::Inspect(args) => {
            inspect::inspect(&args, &Environment::system(), &mut io::stdout().lock())
        }
        CliCommand::Status(args) => {
            inspect::status(&args, &Environment::system(), &mut io::stdout().lock())
        }
        CliCommand::Accept(args) => accept::accept(&args),
        CliCommand::Reject(args) => accept::reject(&args),
        CliCommand::Questions(args) => questions::questions(&args),
        CliCommand::Answer(args) => answer::answer(&args),
        CliCommand::Decide(args) => decide::decide(&args),
        CliCommand::Retry(args) => retry::retry(&args),
        CliCommand::Skip(args) => skip::skip(&args),
        CliCommand::Set(args) => set::set(&args),
        CliCommand::Get(args) => get::get(&args),
        CliCommand::Note(args) => note::note(&args),
        CliCommand::Next(args) => next::next(&args),
        CliCommand::Tick(args) => tick::tick(&args),
        CliCommand::Plan(args) => plan::plan(&args),
        CliCommand::Pause(args) => pause::pause(&args),
        CliCommand::Resume(args) => resume::resume(&args),
        CliCommand::Cancel(args) => cancel::cancel(&args),
        CliCommand::Budget(args) => budget::budget(&args),
        CliCommand::Fork(args) => fork::fork(&args),
        CliCommand::Cap(args) => cap::cap(&args),
        CliCommand::Export(args) => export::export(&args),
        CliCommand::Import(args) => import::import(&args),
        CliCommand::Recover(args) => recover::recover(&args),
        CliCommand::Blobs(args) => blobs::blobs(&args),
        CliCommand::Snapshot(args) => snapshot::snapshot(&args),
        CliCommand::Archive(args) => archive::archive(&args),
        CliCommand::Prune(args) => prune::prune(&args),
        CliCommand::Lab(args) => lab::lab(&args),
        CliCommand::Verify(args) => verify::verify(&args),
        CliCommand::Root(args) => root::root(&args),
        CliCommand::Completions(args) => completions::completions(&args, Cli::command()),
        CliCommand::Man(args) => man::man(&args, Cli::command()),
    }
}
