//! The arguments of `ledger inspect` and `ledger status`, and the view that each subcommand prints.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;
use std::time::Duration;

use clap::Args;

use plan_ledger::plan::closest_name;
use plan_ledger::{Environment, LedgerView, StepState};

use crate::commands::store::source::{environment_for, expect_few_records, is_store};
use crate::commands::{blobs, verify};
use crate::help;
use crate::options::{AsJson, LedgerFolder, default_ledger};
use crate::output::{Code, Failure, option, shell_command};

use super::context::{Form, InspectContext};
use super::health::overtaken::{beside_prune, print_beside_prune};
use super::output::Output;
use super::views;
use super::views::InspectCommand;
use super::views::budget::BudgetViewArgs;
use super::views::logs::LogsArgs;
use super::views::next::{NextArgs, QuestionsArgs};
use super::views::view::StatusArgs;
use crate::output::render::{Style, stdout_style};

const EXAMPLES: &str = "\
Examples:
  ledger inspect                                   runs, what is in flight, what is next, health
  ledger inspect .ledger records --from 120        what happened from record 120 on
  ledger inspect .ledger records --kind receipt_recorded --run my-plan
  ledger inspect .ledger step my-plan '#37'        what is step 37?
  ledger inspect .ledger why my-plan deploy        what it waits for, and what to type
  ledger inspect .ledger timeline my-plan          which worker did what, and when
  ledger inspect old.tar records                   what is in an archive
  ledger inspect .ledger plan --html > plan.html   a view for a browser; it loads nothing
  ledger inspect .ledger --json | jq -c 'select(.type == \"run\") | .next'

The first argument is a folder, unless it is one of the commands: write ./records for a folder of
that name. It takes no lock and writes nothing, so it can be used during a run. A damaged ledger is shown
as far as it can be read; the exit code is then 4.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct InspectArgs {
    #[command(flatten)]
    folder: LedgerFolder,
    #[command(flatten)]
    json: AsJson,
    /// Print HTML, for a browser
    #[arg(long, global = true, conflicts_with = "json")]
    html: bool,
    #[command(subcommand)]
    view: Option<InspectCommand>,
}

impl InspectArgs {
    /// Whether the view continues until it is stopped.
    pub(crate) fn is_endless(&self) -> bool {
        matches!(&self.view, Some(InspectCommand::Records(args)) if args.follow)
    }
}

impl InspectCommand {
    /// Whether the view reads few records of a long log.
    fn reads_few_records(&self) -> bool {
        match self {
            Self::Segments(_) => true,
            Self::Records(args) => args.reads_few_records(),
            _ => false,
        }
    }
}

/// Prints the contents of a ledger.
///
/// # Errors
/// `Usage` for an unknown run or step, and the errors of opening and reading the ledger. Damage is
/// not an error: it has an exit code. A reader that closes the output is not an error either.
pub(crate) fn inspect(
    args: &InspectArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    if args.view.is_none() && !dir.exists() && !is_store(&dir) {
        // A run may have almost the name of a view.
        expect_no_run(&dir, environment)?;
        expect_no_view(&dir, environment)?;
        if args.folder.is_argument() {
            expect_no_word(&dir, environment)?;
        }
    }
    if args.view.as_ref().is_some_and(InspectCommand::reads_few_records) {
        expect_few_records(&dir, environment)?;
    }
    let is_of_runs = args.view.as_ref().is_some_and(InspectCommand::is_of_runs);
    let report = |context: InspectContext<'_>, out: &mut Output<'_>| {
        if is_of_runs { views::view::report_rollback(context, out) } else { Ok(()) }
    };
    let show = |context: InspectContext<'_>, out: &mut Output<'_>| match &args.view {
        None => views::summary::summary(context, out),
        Some(view) => view.show(context, out),
    };
    let shape = if args.html { Shape::Html } else { args.json.into() };
    with_output(&dir, shape, environment, out, |context, out| {
        report(context, out)?;
        show(context, out)
    })
}

/// Prints the view that these words of a command line select, for a ledger on any storage:
/// `status`, `questions`, `budget`, `verify` or `blobs` with their options, or a view of `ledger
/// inspect`.
///
/// # Errors
/// As [`inspect`]; `Usage` for words that do not name a view.
pub(crate) fn inspect_words(
    dir: &str,
    words: &[String],
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let (word, options) = words.split_first().map_or(("", words), |(word, rest)| (word, rest));
    let place = ["--ledger".to_owned(), dir.to_owned()];
    match word {
        "status" => status(&arguments(dir, options)?, environment, out),
        "questions" => questions(&parsed(place.iter().chain(options))?, environment, out),
        "budget" => {
            let args: BudgetViewArgs = parsed(place.iter().chain(options))?;
            budget(&args, args.run.name(), environment, out)
        }
        "verify" => verify::verify_in(&arguments(dir, options)?, environment, out),
        "blobs" => blobs::blobs_in(&arguments(dir, options)?, environment, out),
        _ => inspect(&arguments(dir, words)?, environment, out),
    }
}

/// The arguments of a command about a ledger.
pub(crate) fn arguments<A: Args>(dir: &str, words: &[String]) -> Result<A, Failure> {
    parsed(std::iter::once(&dir.to_owned()).chain(words))
}

fn parsed<'a, A: Args>(words: impl Iterator<Item = &'a String>) -> Result<A, Failure> {
    #[derive(clap::Parser)]
    struct Line<A: Args> {
        #[command(flatten)]
        args: A,
        // As the program has it: `AsJson` reads it.
        #[arg(long, global = true)]
        json: bool,
    }
    let line = std::iter::once("inspect").chain(words.map(String::as_str));
    let parsed = <Line<A> as clap::Parser>::try_parse_from(line);
    parsed.map(|line| line.args).map_err(|error| {
        let text = error.render().to_string();
        Failure::Usage(help::plain_words(&text))
    })
}

/// Rejects a folder that does not exist and has almost the name of a view: a typing error.
fn expect_no_view(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let inspect = InspectArgs::augment_args(clap::Command::new("inspect"));
    let replaced = dir.to_str().and_then(|word| help::replaced(&["inspect".into(), word.into()]));
    if let Some(message) = replaced {
        return Err(Failure::Usage(message));
    }
    let Some(view) = dir.to_str().and_then(|word| help::closest_view(&inspect, word)) else {
        return Ok(());
    };
    let words = inspect.find_subcommand(view).map(|view| required_words(view, environment));
    let dir = dir.display();
    let message = format!(
        "no ledger at {dir}\nhint: did you mean `ledger inspect {view}{}`?",
        words.unwrap_or_default()
    );
    Err(Failure::Usage(message))
}

/// The words that a view needs: its required arguments, and the run if several are active.
fn required_words(view: &clap::Command, environment: &Environment) -> String {
    let open = || {
        let view = LedgerView::open(&default_ledger(), environment)?;
        view.fold_recent().map(|fold| fold.state.runs.open().count())
    };
    let needs_run = open().is_ok_and(|open| open > 1);
    let positionals = view.get_positionals().filter(|argument| {
        argument.is_required_set() || needs_run && argument.get_id() == "run_name"
    });
    positionals
        .flat_map(|argument| argument.get_value_names().unwrap_or_default())
        .map(|name| format!(" {name}"))
        .collect()
}

/// Rejects a folder that does not exist and has the name of a run of the default ledger.
fn expect_no_run(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let is_missing = !dir.exists() && !is_store(dir);
    let Some(word) = dir.to_str().filter(|_| is_missing) else { return Ok(()) };
    let folded =
        LedgerView::open(&default_ledger(), environment).and_then(|view| view.fold_recent());
    if !folded.is_ok_and(|folded| folded.state.find_run(word).is_some()) {
        return Ok(());
    }
    let command = format!("ledger status {}", option("--run", word));
    let message = format!("no ledger at {word}\nhint: `{command}` shows the run");
    Err(Failure::Usage(message))
}

/// Rejects a plain word that is no view, no folder and no run: the reader is told what there is, and not to create a
/// ledger of that name.
fn expect_no_word(dir: &Path, environment: &Environment) -> Result<(), Failure> {
    let default = default_ledger();
    let is_word = |word: &&str| !word.contains(['/', '.']);
    let Some(word) = dir.to_str().filter(is_word) else { return Ok(()) };
    let Ok(fold) = LedgerView::open(&default, environment).and_then(|view| view.fold_recent())
    else {
        let Err(error) = LedgerView::open(dir, environment) else { return Ok(()) };
        let hint = "name an existing ledger (--ledger DIR or LEDGER_DIR); `ledger inspect --help` lists the views";
        return Err(Failure::Ledger(error.with_hint(hint)));
    };
    let steps = fold.state.runs.values().filter_map(|run| {
        let near = closest_name(word, run.steps.iter().map(StepState::id));
        near.map(|step| shell_command("inspect", &default, &["step", &run.name, step]))
    });
    let names: Vec<String> =
        fold.state.runs.overviews().map(|(_, overview)| overview.name.clone()).collect();
    let run = closest_name(word, names.iter().map(String::as_str));
    let run = run.map(|run| shell_command("status", &default, &["--run", run]));
    let near: Vec<String> =
        run.into_iter().chain(steps).take(NEAR_MAX).map(|it| format!("`{it}`")).collect();
    let near = match near.as_slice() {
        [] => {
            "`ledger inspect --help` lists the views, and `ledger status` shows the runs".to_owned()
        }
        near => format!("did you mean {}?", near.join(" or ")),
    };
    let message = format!("`{word}` is no view, no run, and no folder of a ledger\nhint: {near}");
    Err(Failure::Usage(message))
}

/// How many commands with a near name are listed.
const NEAR_MAX: usize = 3;

/// `ledger status`: prints the views of runs, once or after every change.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn status(
    args: &StatusArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let dir = args.folder.dir()?;
    expect_no_run(&dir, environment)?;
    if args.folder.is_argument() && !dir.exists() && !is_store(&dir) {
        expect_no_word(&dir, environment)?;
    }
    let print = |out: &mut dyn Write| {
        with_output(&dir, args.json.into(), environment, out, |context, out| {
            views::view::status(args, context, out)
        })
    };
    if !args.watch {
        return print(out);
    }
    let is_terminal = !args.json.0 && io::stdout().is_terminal();
    let mut last_seq = None;
    loop {
        let state = beside_prune(|| Ok(LedgerView::open(&dir, environment)?.fold_recent()?.state))?;
        // This reads no packed runs: `print` finds out whether all of them can be unpacked.
        let has_open_runs = state.runs.open().next().is_some();
        if last_seq.replace(state.seq) != Some(state.seq) {
            let mut text = Vec::new();
            if is_terminal {
                text.extend_from_slice(CLEAR_SCREEN);
            }
            let code = print(&mut text)?;
            match out.write_all(&text).and_then(|()| out.flush()) {
                // The reader closed the output.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    return Ok(Code::Success);
                }
                written => written.map_err(Failure::Output)?,
            }
            if !has_open_runs {
                return Ok(code);
            }
        }
        std::thread::sleep(WATCH_INTERVAL);
    }
}

/// `ledger next`: prints the next actions of runs.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn next(
    args: &NextArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let print =
        |context: InspectContext<'_>, out: &mut Output<'_>| views::next::next(args, context, out);
    with_output(args.ledger.dir(), args.ledger.json.into(), environment, out, print)
}

/// `ledger questions`: prints the items that wait for a person.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn questions(
    args: &QuestionsArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let print = |context: InspectContext<'_>, out: &mut Output<'_>| {
        views::next::questions(args, context, out)
    };
    with_output(args.ledger.dir(), args.ledger.json.into(), environment, out, print)
}

/// `ledger budget`: prints the budget of the named run and of the ledger, or that of the ledger alone.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn budget(
    args: &BudgetViewArgs,
    run: Option<&str>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let print = |context: InspectContext<'_>, out: &mut Output<'_>| {
        views::budget::budget(args, run, context, out)
    };
    with_output(args.ledger.dir(), args.ledger.json.into(), environment, out, print)
}

/// `ledger logs`: prints the output of a run's workers.
///
/// # Errors
/// As [`inspect`].
pub(crate) fn logs(
    args: &LogsArgs,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<Code, Failure> {
    let print =
        |context: InspectContext<'_>, out: &mut Output<'_>| views::logs::logs(args, context, out);
    with_output(args.dir(), args.json.into(), environment, out, print)
}

/// How often `ledger status --watch` looks for new records.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);

/// Moves the cursor home and clears the screen.
const CLEAR_SCREEN: &[u8] = b"\x1b[H\x1b[2J";

/// What a view is printed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    Text,
    Html,
    Json,
}

impl From<AsJson> for Shape {
    fn from(json: AsJson) -> Self {
        if json.0 { Self::Json } else { Self::Text }
    }
}

/// Runs a view with buffered output in the style of the terminal.
fn with_output(
    dir: &Path,
    shape: Shape,
    environment: &Environment,
    out: &mut dyn Write,
    view: impl Fn(InspectContext<'_>, &mut Output<'_>) -> Result<Code, Failure>,
) -> Result<Code, Failure> {
    let environment = &environment_for(dir, environment)?;
    let style = if shape == Shape::Text { stdout_style() } else { Style::PLAIN };
    let form = if shape == Shape::Json { Form::Json } else { Form::Text };
    let result = print_beside_prune(out, |out| {
        let mut writer = BufWriter::new(out);
        let mut out = match shape {
            Shape::Html => Output::html(&mut writer),
            Shape::Text | Shape::Json => Output::new(&mut writer, style),
        };
        let code = view(InspectContext { dir, form, environment }, &mut out)?;
        out.flush()?;
        Ok(code)
    });
    match result {
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Code::Success)
        }
        result => result,
    }
}
