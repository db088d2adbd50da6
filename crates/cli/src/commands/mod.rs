//! The `ledger` binary: parse, call, render.
//!
//! Invariants:
//! - What was asked for goes to standard output, everything else to standard error.
//! - A reader of standard output that goes away is no error: the work goes on in silence.
//! - The exit code says what kind of thing happened; see `exit.rs`.
//!
//! Left out on purpose: anything that a harness could not do itself with the library.

mod acting;
mod answer;
mod archive;
mod args;
mod blobs;
mod completions;
mod control;
mod drill;
mod drill_report;
mod every_crash;
mod every_crash_report;
mod exit;
mod export;
mod folder;
mod helpers;
mod import_ledger;
mod inspect;
mod json;
mod lab;
mod part;
mod patience;
mod plan_files;
mod planning;
mod plans;
mod printer;
mod progress;
mod proposals;
mod prune;
mod questions;
mod recover;
mod resume;
mod review;
mod run;
mod serve;
mod signals;
mod snapshot;
mod steps;
mod text;
mod verify;
mod waiting;
mod watch;
mod work;
mod worker;

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use crate::server::{RulingWord, open_in_turn};
use args::{Cli, Task};
use exit::{Code, Failure};
use plan_ledger::error::Result;
use plan_ledger::ledger::{Environment, Ledger};

/// Run the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() => {
            let text = error.render().to_string();
            let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
            return refuse(&Failure::Usage(text.to_owned()));
        }
        Err(answer) => {
            // Help and version are answers, not errors; a closed pipe is nobody's fault.
            return match answer.print() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    refuse(&Failure::Output(error))
                }
                _ => Code::Fine.into(),
            };
        }
    };
    signals::outlive_full_files();
    match carry_out(cli.task) {
        Ok(code) => code.into(),
        Err(failure) => refuse(&failure),
    }
}

/// Say why a command came to nothing. What was asked for as JSON is refused as JSON, too, also
/// where the rest was not understood; the lines of `inspect` have their own form.
fn refuse(failure: &Failure) -> ExitCode {
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--").peekable();
    let is_inspect = words.peek().is_some_and(|word| word == "inspect");
    if !is_inspect && words.any(|word| word == "--json") {
        let _ = print(&format!("{}\n", failure.json()));
    }
    say(&failure.to_string());
    failure.code().into()
}

fn carry_out(task: Task) -> std::result::Result<Code, Failure> {
    match task {
        Task::Init(args) => serve::init(&args),
        Task::Serve(args) => serve::serve(&args),
        Task::Run(args) => run::run(&args),
        Task::Claim(args) => worker::claim(&args),
        Task::Renew(args) => worker::renew(&args),
        Task::Release(args) => worker::release(&args),
        Task::Receipt(args) => worker::receipt(&args),
        Task::Effect(args) => worker::effect(&args),
        Task::Work(args) => work::work(&args),
        Task::Retry(args) => steps::retry(&args),
        Task::Skip(args) => steps::skip(&args),
        Task::Decide(args) => steps::decide(&args),
        Task::Set(args) => steps::set(&args),
        Task::Get(args) => steps::get(&args),
        Task::Note(args) => steps::note(&args),
        Task::Tick(args) => steps::tick(&args),
        Task::Next(args) => steps::next(&args),
        Task::Drill(args) => drill::drill(&args),
        Task::Inspect(args) => {
            inspect::inspect(&args, &Environment::system(), &mut io::stdout().lock())
        }
        Task::Status(args) => {
            inspect::status(&args, &Environment::system(), &mut io::stdout().lock())
        }
        Task::Accept(args) => answer::judge(&args, RulingWord::Pass),
        Task::Reject(args) => answer::judge(&args, RulingWord::Fail),
        Task::Questions(args) => questions::questions(&args),
        Task::Answer(args) => questions::answer(&args),
        Task::Plan(args) => plans::plan(&args),
        Task::Pause(args) => control::pause(&args),
        Task::Resume(args) => control::resume(&args),
        Task::Cancel(args) => control::cancel(&args),
        Task::Budget(args) => control::budget(&args),
        Task::Fork(args) => control::fork(&args),
        Task::Cap(args) => answer::cap(&args),
        Task::Export(args) => export::export(&args),
        Task::Import(args) => import_ledger::import_ledger(&args),
        Task::Recover(args) => recover::recover(&args),
        Task::Blobs(args) => blobs::blobs(&args),
        Task::Snapshot(args) => snapshot::snapshot(&args),
        Task::Archive(args) => archive::archive(&args),
        Task::Prune(args) => prune::prune(&args),
        Task::Lab(args) => lab::lab(&args),
        Task::Verify(args) => {
            let dir = args.dir()?;
            verify::verify(args.of(&dir), &Environment::system(), &mut io::stdout())
        }
        Task::Completions(args) => completions::completions(&args),
        Task::Man(args) => completions::man(&args),
        Task::Root(args) => verify::root(&args, &Environment::system()),
    }
}

/// Look at a ledger in this process, as `ledger inspect` with these words does, on any disk: what
/// it prints goes to `out`; its exit code, and why it came to nothing if it did.
///
/// A harness that keeps its ledgers on a disk of its own, or tests on a simulated one, has all
/// that the command line shows.
pub fn inspect(words: &[&str], environment: &Environment, out: &mut dyn Write) -> (u8, String) {
    let words = ["ledger", "inspect"].iter().chain(words);
    let outcome = match Cli::try_parse_from(words) {
        Ok(Cli { task: Task::Inspect(args) }) => inspect::inspect(&args, environment, out),
        Ok(_) => Ok(Code::Usage),
        Err(error) => Err(Failure::Usage(error.render().to_string())),
    };
    match outcome {
        Ok(code) => (code.number(), String::new()),
        Err(failure) => (failure.code().number(), failure.to_string()),
    }
}

/// A line for people, on standard error.
fn say(line: &str) {
    // There is nobody to tell when standard error is gone.
    let _ = writeln!(io::stderr().lock(), "ledger: {}", harmless(line));
}

/// The answer for people, on standard output.
fn answer_with(text: &str) -> std::result::Result<(), Failure> {
    print(&harmless(text))
}

/// The answer as it is, on standard output.
fn print(text: &str) -> std::result::Result<(), Failure> {
    print_to(&mut io::stdout().lock(), text)
}

/// The answer as it is, to whoever reads it. One who went away is no error.
fn print_to(out: &mut dyn Write, text: &str) -> std::result::Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Lines in which plans and workers may have had their say, with everything escaped that a
/// terminal might obey or hide.
fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || inspect::is_harmless(c) {
            out.push(c);
        } else {
            out.extend(c.escape_default());
        }
    }
    out
}

/// What a command came to: for people, or with `--json` for programs.
fn outcome(
    as_json: bool,
    value: &serde_json::Value,
    text: &str,
) -> std::result::Result<(), Failure> {
    if as_json { print(&format!("{value}\n")) } else { answer_with(&format!("{text}\n")) }
}

/// The environment in which that path is a ledger: a folder, or an archive's file.
fn at(path: &Path, environment: &Environment) -> Result<Environment> {
    if path.is_file() {
        return plan_ledger::ledger::archive_environment(path, environment);
    }
    Ok(environment.clone())
}

/// Open a ledger that is there, and say what opening it found.
fn open(dir: &Path, environment: &Environment) -> Result<Ledger> {
    let (ledger, report) = open_in_turn(dir, || Ledger::open(dir, environment))?;
    report.notes.iter().for_each(|note| say(note));
    Ok(ledger)
}
