//! The program `ledger`: a command line, a socket server and a runner over the library
//! `plan_ledger`.
//!
//! A command line becomes a request. The process that has the writer lock executes it: the command
//! itself, or a server that it reaches through a socket in the ledger's folder. The runner
//! dispatches the steps of a run to worker processes.
//!
//! `cli` parses the command line, `help` arranges its help, `commands` has one file for each
//! command, `requests` one for each request, and `output` prints. Everything
//! that a command does is also possible with the library.

mod cli;
mod commands;
mod help;
mod interfaces;
mod json;
mod json_lines;
mod options;
mod output;
pub mod protocol;
pub mod requests;
pub mod runner;
pub mod server;
mod signals;

#[cfg(all(feature = "http", feature = "mcp"))]
#[doc(hidden)]
pub use interfaces::http::{serve_router, tool_router};

#[cfg(feature = "store")]
#[doc(hidden)]
pub use commands::store::open_objects;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, FromArgMatches as _};

use plan_ledger::Environment;
use plan_ledger_views::Audience;

use cli::{Cli, CliCommand};
use commands::store::source::{damage_hint, is_store};
use output::{Code, Failure, print_error, print_json, print_message, print_raw};
use server::AuthorSource;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = runner::act_or_enable() {
        return code;
    }
    let parsed = cli::program().try_get_matches();
    if parsed.as_ref().is_ok_and(names_run_twice) {
        return fail(&Failure::Usage(options::RUN_TWICE.to_owned()));
    }
    if let Ok(matches) = &parsed
        && let Err(failure) = commands::store::source::expect_readable(&cli::program(), matches)
    {
        return fail(&failure);
    }
    let names_folder = parsed.as_ref().is_ok_and(names_folder);
    let author = parsed.as_ref().ok().and_then(author_source);
    output::name_ledger(parsed.as_ref().ok().and_then(ledger_of).unwrap_or_else(named_ledger));
    #[cfg(not(feature = "store"))]
    if !names_folder
        && let Ok(Some(command)) = parsed.as_ref().map(ArgMatches::subcommand_name)
        && let Some(message) = help::servers_without_store(command)
    {
        return fail(&Failure::Usage(message));
    }
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Without a command, the help lists the commands.
        Err(error) if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // If standard error is closed, the exit code still says it.
            let _ = error.print();
            return Code::Usage.into();
        }
        Err(answer) if answer.kind() == ErrorKind::DisplayVersion => {
            return match print_raw(VERSION_LINE) {
                Ok(()) => Code::Success.into(),
                Err(failure) => fail(&failure),
            };
        }
        Err(error) if error.use_stderr() => {
            let words = std::env::args_os().skip(1);
            let words: Vec<String> =
                words.map(|word| word.to_string_lossy().into_owned()).collect();
            return fail(&Failure::Usage(usage_error(error, &words)));
        }
        Err(answer) => {
            // Help and version are results, not errors.
            return match answer.print() {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    fail(&Failure::Output(error))
                }
                _ => Code::Success.into(),
            };
        }
    };
    // The page of a server is for persons, also if an agent started it.
    let ledger = named_ledger();
    let is_server = matches!(cli.command, CliCommand::Serve(_));
    if server::expect_outside(std::process::id(), &ledger).is_err() {
        output::write_for(Audience::Worker);
    } else if let Some(session) = server::AgentSession::of_environment() {
        output::render::disable_pager();
        if !is_server && !server::agents_may_decide(&ledger, session.host) {
            output::write_for(Audience::Agent);
        }
    }
    if let Some(source) = author {
        server::note_author_source(source);
    }
    output::render::set_color(cli.color);
    if cli.quiet {
        output::be_quiet();
    }
    signals::survive_file_size_limit();
    if cli.allow_unsafe_locks {
        options::allow_unsafe_locks();
    }
    #[cfg(feature = "store")]
    if names_folder {
        options::prefer_folder();
    }
    if cli.accept_rollback {
        if let Err(failure) = server::expect_person_for("--accept-rollback", &ledger, "") {
            return fail(&failure);
        }
        server::accept_rollback();
    }
    #[cfg(feature = "store")]
    if let Some(folder) = cli.cache {
        commands::store::cache_in(folder);
    }
    match cli.command.run() {
        Ok(code) => code.into(),
        Err(Failure::Ledger(error)) => fail(&Failure::Ledger(server::with_gone(error))),
        Err(failure) => fail(&failure),
    }
}

/// Whether the command line has `--ledger`, and no `--server`.
fn names_folder(matches: &ArgMatches) -> bool {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    let is_given = |id: &str| {
        matches.try_contains_id(id).is_ok()
            && matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    is_given("dir") && !is_given("servers")
}

/// The ledger of the command, from an option or an argument. An argument without a file or folder
/// is ignored: it may be a misspelled view, or the name of a run.
fn ledger_of(matches: &ArgMatches) -> Option<PathBuf> {
    let named = |id: &str| {
        let ledger = matches.try_get_one::<PathBuf>(id).ok().flatten().cloned()?;
        let is_option = matches.value_source(id) == Some(ValueSource::EnvVariable)
            || std::env::args_os().any(|word| word.to_string_lossy().starts_with("--ledger"));
        Some(ledger).filter(|ledger| ledger.exists() || is_option)
    };
    // `ledger inspect DIR VIEW` has the folder before the view.
    let inner = matches.subcommand().and_then(|(_, inner)| ledger_of(inner));
    inner.or_else(|| named("dir")).or_else(|| named("ledger"))
}

/// The ledger that this command line names with `--ledger`, else `LEDGER_DIR`, else the one that is found.
fn named_ledger() -> PathBuf {
    let mut words = std::env::args_os();
    while let Some(word) = words.next() {
        let word = word.to_string_lossy();
        let named = match word.strip_prefix("--ledger") {
            Some("") => words.next().map(PathBuf::from),
            Some(rest) => rest.strip_prefix('=').map(PathBuf::from),
            None => None,
        };
        if let Some(named) = named {
            return named;
        }
    }
    let named = std::env::var_os("LEDGER_DIR").filter(|named| !named.is_empty());
    named.map_or_else(options::default_ledger, PathBuf::from)
}

/// The source of the author, if the command line has one.
fn author_source(matches: &ArgMatches) -> Option<AuthorSource> {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches.try_contains_id("by").ok()?;
    match matches.value_source("by")? {
        ValueSource::CommandLine => Some(AuthorSource::Option),
        ValueSource::EnvVariable => Some(AuthorSource::Variable),
        _ => None,
    }
}

/// Whether a run is named as an argument, `RUN` or `[RUN] ...`, and with `--run`. The parser cannot say
/// so, since `LEDGER_RUN` gives the option a value, too.
fn names_run_twice(matches: &ArgMatches) -> bool {
    let (mut command, mut matches) = (&cli::program(), matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { return false };
        (command, matches) = (found, inner);
    }
    let is_option = |arg: &&Arg| arg.get_long() == Some("run") && arg.get_id() == "run";
    if !command.get_arguments().any(|arg| is_option(&arg))
        || matches.value_source("run") != Some(ValueSource::CommandLine)
    {
        return false;
    }
    command.get_positionals().any(|arg| {
        let given = matches.get_raw(arg.get_id().as_str()).map_or(0, |words| words.len());
        let name = arg.get_value_names().and_then(|names| names.first()).map_or("", |name| name);
        let most = arg.get_num_args().map_or(1, |range| range.max_values());
        name == "RUN" && given > 0 || name.starts_with("[RUN]") && given == most
    })
}

/// The version, with the name of the package: another program is called `ledger`, too.
const VERSION_LINE: &str = concat!("plan-ledger ", env!("CARGO_PKG_VERSION"), "\n");

/// The message for a command line that cannot be parsed.
fn usage_error(error: clap::Error, words: &[String]) -> String {
    if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument)
        && let Some(message) = help::replaced(words)
    {
        return message;
    }
    if error.kind() == ErrorKind::InvalidSubcommand
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand)
        && words.first() == Some(word)
    {
        return help::unknown_command(&cli::program(), word);
    }
    if matches!(error.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument)
        && let Some(message) = misspelled_view(words)
    {
        return message;
    }
    #[cfg(not(feature = "store"))]
    if let Some(message) = help::option_without_store(&error, words) {
        return message;
    }
    let mut program = cli::program();
    program.build();
    let error = match help::with_meant_option(&program, error, words) {
        Ok(error) => error,
        Err(message) => return message,
    };
    let error = help::with_commands(&program, error, words);
    let text = help::plain_words(&error.render().to_string());
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end().to_owned();
    if let Some(hint) = help::folder_hint(&program, &error, words) {
        return format!("{text}\nhint: {hint}");
    }
    let is_run = words.first().is_some_and(|word| word == "run");
    if is_run && error.kind() == ErrorKind::MissingRequiredArgument {
        return format!("{text}\nhint: `ledger resume` continues the last run");
    }
    text
}

/// The error for `ledger inspect WORD ...`, if WORD is not a folder but similar to the name of a
/// view. The parser took it for the ledger's folder.
fn misspelled_view(words: &[String]) -> Option<String> {
    let mut words = words.iter().filter(|word| !word.starts_with('-'));
    let word = (words.next()? == "inspect").then(|| words.next()).flatten()?;
    let program = cli::program();
    let view = help::closest_view(program.find_subcommand("inspect")?, word)?;
    // `ledger inspect help` is a command.
    if word == "help" {
        return None;
    }
    let is_folder = std::path::Path::new(word).exists();
    (!is_folder && word != view)
        .then(|| format!("there is no view `{word}`\nhint: did you mean `ledger inspect {view}`?"))
}

/// Reports why a command failed. With `--json`, the failure is also a JSON line, even if the rest
/// of the command line could not be parsed.
fn fail(failure: &Failure) -> ExitCode {
    let blocks_host = failure.code() == Code::Usage && is_hook(std::env::args_os().skip(1));
    let code = if blocks_host { Code::Failed } else { failure.code() };
    let mut words = std::env::args_os().skip(1).take_while(|word| word != "--");
    if words.any(|word| word == "--json") {
        let mut line = output::line_with_ledger(&failure.json());
        if let Some(number) = line.get_mut("exit_code") {
            *number = code.number().into();
        }
        let _ = print_json(&line);
    }
    print_error(&failure.to_string());
    if failure.code() == Code::Damaged {
        let error = if let Failure::Ledger(error) = failure { Some(error) } else { None };
        let place = error.and_then(|error| error.location().path.as_deref());
        // The hint of an error about an object of a store says it.
        let is_said =
            error.is_some_and(|error| error.hint().is_some()) && place.is_some_and(is_store);
        if !is_said {
            print_message(&format!("to continue: {}", damage_hint(place)));
        }
    }
    code.into()
}

/// Whether these words call `ledger hook`, even with errors. A hook with the exit code of wrong
/// usage would block its host.
fn is_hook(words: impl Iterator<Item = std::ffi::OsString>) -> bool {
    let mut words = words.take_while(|word| word != "--");
    let mut is_first = true;
    while let Some(word) = words.next() {
        if word == "hook" {
            return is_first || words.next().is_some_and(|host| is_host(&host));
        }
        if word == "--color" || word == "--cache" {
            words.next();
        } else if !word.to_string_lossy().starts_with('-') {
            is_first = false;
        }
    }
    false
}

fn is_host(word: &std::ffi::OsStr) -> bool {
    word.to_str().is_some_and(|word| options::Host::named(word).is_some())
}

/// Runs `ledger inspect DIR` with these arguments in this process, on any storage; after the folder
/// may also stand `status`, `verify` or `blobs`. The result goes to `out`. Returns the exit code,
/// and the error message, if any.
///
/// So a program that keeps its ledgers on its own storage, or a test on a simulated disk, has all
/// views of the command line.
pub fn inspect(arguments: &[&str], environment: &Environment, out: &mut dyn Write) -> (u8, String) {
    let (dir, words) = arguments.split_first().unwrap_or((&"", &[]));
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let shown = match words.split_first() {
        Some((word, options)) if word == "export" => commands::inspect::arguments(dir, options)
            .and_then(|args| commands::export::export(&args, environment, out)),
        _ => commands::inspect::inspect_words(dir, &words, environment, out),
    };
    match shown {
        Ok(code) => (code.number(), String::new()),
        Err(failure) => (failure.code().number(), failure.to_string()),
    }
}
