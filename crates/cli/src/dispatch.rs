//! Calls the command that the command line names.

use std::io;

use clap::CommandFactory as _;

use plan_ledger::ledger::Environment;

use crate::cli::{Cli, Task};
use crate::commands::{
    accept, answer, archive, blobs, budget, cancel, cap, claim, completions, decide, drill, effect,
    export, fork, get, import, init, inspect, lab, man, next, note, pause, plan, prune, questions,
    receipt, recover, release, renew, resume, retry, root, run, serve, set, skip, snapshot, tick,
    verify, work,
};
use crate::output::{Code, Failure};

pub(crate) fn dispatch(task: Task) -> Result<Code, Failure> {
    match task {
        Task::Init(args) => init::init(&args),
        Task::Serve(args) => serve::serve(&args),
        Task::Run(args) => run::run(&args),
        Task::Work(args) => work::work(&args),
        Task::Claim(args) => claim::claim(&args),
        Task::Renew(args) => renew::renew(&args),
        Task::Release(args) => release::release(&args),
        Task::Receipt(args) => receipt::receipt(&args),
        Task::Effect(args) => effect::effect(&args),
        Task::Drill(args) => drill::drill(&args),
        Task::Inspect(args) => {
            inspect::inspect(&args, &Environment::system(), &mut io::stdout().lock())
        }
        Task::Status(args) => {
            inspect::status(&args, &Environment::system(), &mut io::stdout().lock())
        }
        Task::Accept(args) => accept::accept(&args),
        Task::Reject(args) => accept::reject(&args),
        Task::Questions(args) => questions::questions(&args),
        Task::Answer(args) => answer::answer(&args),
        Task::Decide(args) => decide::decide(&args),
        Task::Retry(args) => retry::retry(&args),
        Task::Skip(args) => skip::skip(&args),
        Task::Set(args) => set::set(&args),
        Task::Get(args) => get::get(&args),
        Task::Note(args) => note::note(&args),
        Task::Next(args) => next::next(&args),
        Task::Tick(args) => tick::tick(&args),
        Task::Plan(args) => plan::plan(&args),
        Task::Pause(args) => pause::pause(&args),
        Task::Resume(args) => resume::resume(&args),
        Task::Cancel(args) => cancel::cancel(&args),
        Task::Budget(args) => budget::budget(&args),
        Task::Fork(args) => fork::fork(&args),
        Task::Cap(args) => cap::cap(&args),
        Task::Export(args) => export::export(&args),
        Task::Import(args) => import::import(&args),
        Task::Recover(args) => recover::recover(&args),
        Task::Blobs(args) => blobs::blobs(&args),
        Task::Snapshot(args) => snapshot::snapshot(&args),
        Task::Archive(args) => archive::archive(&args),
        Task::Prune(args) => prune::prune(&args),
        Task::Lab(args) => lab::lab(&args),
        Task::Verify(args) => verify::verify(&args),
        Task::Root(args) => root::root(&args),
        Task::Completions(args) => completions::completions(&args, Cli::command()),
        Task::Man(args) => man::man(&args, Cli::command()),
    }
}
