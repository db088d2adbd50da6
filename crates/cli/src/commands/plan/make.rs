//! `ledger plan make`: a planner command makes the first plan of a run from a goal.
//!
//! The plan is completed from a registry of tools, checked, and proposed; a person approves it. The
//! planner's time and cost are part of the run. Whatever could refuse the plan is checked before the
//! planner is called, because its work costs money.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use plan_ledger::plan::{NameKind, Provenance, lint, validate};
use plan_ledger::{
    ApprovalPolicy, Cost, Error, Json, Plan, Result as LedgerResult, Ruling, RunId, RunPolicy,
    TextPolicy,
};
use plan_ledger_files::{PlanFile, read_tools};

use crate::commands::init::ensure_ledger;
use crate::commands::run::read_answer;
use crate::commands::store::source::is_store;
use crate::options::{InputArgs, LedgerArgs, parse_text_policy};
use crate::output::{Code, Failure, print_message, shell_command};
use crate::requests::{PlannerUse, ProposeRequest, check_name};
use crate::runner::{
    Check, CheckAnswer, Checked, FolderState, PlannedWork, Planner, ProcessOptions, ProcessWorkers,
    Report, Subject, TIMEOUT_SECONDS, Workers as _, first_request, rationale,
};

use super::forms::{converted, form_of_name, write_new};
use super::planned_files::execute_and_note;

const EXAMPLES: &str = "\
Examples:
  ledger plan make --goal 'Move the users to the new API' --planner ./planner.sh
  ledger plan make --goal 'Process a loan' --planner ./planner.sh --tools tools.yaml --run loan
  ledger plan review loan                          the plan that it made
  ledger plan approve loan --by ana
  ledger run loan --worker ./agent.sh              does it; so does `ledger work`
  ledger plan make --goal 'Process a loan' --planner ./planner.sh -o loan.yaml

The planner reads JSON from its standard input and prints a plan (format/hand-off.md, Planners). If
that is not a plan, it is asked again, at most three times. A missing ledger is created.";

/// The pause between two looks at the planner.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// How often the planner is asked.
const REPLIES_MAX: usize = 3;

/// How many words of the goal are in the default name of the run.
const NAME_WORDS: usize = 5;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanMakeArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The goal of the plan
    #[arg(long, value_name = "TEXT")]
    goal: String,
    /// Shell command that prints a plan: reads a JSON request
    #[arg(long, value_name = "CMD")]
    planner: String,
    /// Complete the plan from this registry of tools: YAML or JSON (format/tools.md)
    #[arg(long, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// The run's name [default: the name of the --output file without its extension, else the first words of
    /// the goal]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Also write the plan to this file, which must not exist: YAML, or by its ending JSON or Markdown
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    inputs: InputArgs,
    /// How text criteria are judged [default: judge]
    #[arg(long, value_name = "WHO", value_parser = parse_text_policy())]
    text: Option<TextPolicy>,
}

pub(super) fn make(args: &PlanMakeArgs) -> Result<Code, Failure> {
    let run = args.run.clone().unwrap_or_else(|| default_name(args));
    check_name(NameKind::Run, &run)?;
    let tools = args.tools.as_ref().map(|file| read_tools(file)).transpose();
    let planner = Planner {
        command: args.planner.clone(),
        approval: ApprovalPolicy::Required,
        read: read_answer,
        // The first version waits for a person, and that person sees the commands.
        commands_approved: false,
        tools: tools.map_err(Failure::of_input)?,
    };
    // The types of the inputs are not known before there is a plan.
    let given = args.inputs.values(&Plan::default())?;
    check_output(args.output.as_deref())?;
    let dir = args.ledger.dir();
    if !is_store(dir) && ensure_ledger(dir, false)? {
        print_message(&format!("{}: created an empty ledger", dir.display()));
    }
    let (PlannedWork { plan, commands }, planner_use) = ask(args, &run, &planner, &given)?;
    if !commands.is_empty() {
        print_message(&format!("commands: {}", commands.join("; ")));
    }
    let made = PlanFile::of_run(plan.clone(), BTreeMap::new(), BTreeMap::new());
    let proposed = propose(args, &run, plan, planner_use);
    // The plan cost money: it is kept in a file even if the ledger refused it.
    let is_proposed = matches!(proposed, Ok(Code::Success));
    let file = match &args.output {
        Some(file) => file.clone(),
        None if is_proposed => return proposed,
        None => free_name(&run),
    };
    match (write_new_plan(&file, &made), &proposed) {
        (Ok(()), _) => {
            print_message(&next_of(&file, (dir, &run), is_proposed));
            proposed
        }
        (Err(failure), Ok(Code::Success)) => {
            let export = shell_command("plan export", dir, &[&run]);
            print_message(&format!("the plan is in the ledger, and not in the file: `{export}`"));
            Err(failure)
        }
        (Err(failure), _) => {
            print_message(&format!("the plan was not written: {failure}"));
            proposed
        }
    }
}

/// Proposes the plan that was made.
fn propose(
    args: &PlanMakeArgs,
    run: &str,
    plan: Plan,
    planner_use: PlannerUse,
) -> Result<Code, Failure> {
    let inputs = args.inputs.values(&plan)?;
    for warning in lint(&plan) {
        print_message(&format!("warning: {warning}"));
    }
    let by = planner_use.by.clone();
    let why = rationale(&plan).unwrap_or(&args.goal);
    let request = ProposeRequest {
        reason: format!("{by}: {why}"),
        policy: RunPolicy {
            approval: ApprovalPolicy::Required,
            text: args.text.unwrap_or_default(),
            ..RunPolicy::default()
        },
        inputs,
        planner: Some(planner_use),
        provenance: Some(Provenance { author: Some(by), ..Provenance::default() }),
        ..ProposeRequest::of(run.to_owned(), plan)
    };
    execute_and_note(&args.ledger, request).map(|(code, _)| code)
}

/// Writes the plan into a new file.
fn write_new_plan(file: &Path, made: &PlanFile) -> Result<(), Failure> {
    write_new(file, &converted(file, made, form_of_name(file))?)
}

/// What a person does with the file.
fn next_of(file: &Path, (dir, run): (&Path, &str), is_proposed: bool) -> String {
    let file = file.display().to_string();
    let verb = if is_proposed { "run" } else { "plan propose" };
    let command = shell_command(verb, dir, &[&file, "--run", run]);
    if is_proposed {
        format!("{file}: the plan of run {run}; once it is approved: `{command}`")
    } else {
        format!("{file}: the plan that was refused; change it, and propose it: `{command}`")
    }
}

/// A new file in the current folder for the plan of a run.
fn free_name(run: &str) -> PathBuf {
    let is_plain = |c: &char| c.is_alphanumeric() || *c == '_';
    let name: String = run.chars().map(|c| if is_plain(&c) { c } else { '-' }).collect();
    let name = format!("plan-{name}");
    let numbered = (2..1_000).map(|number| PathBuf::from(format!("{name}-{number}.yaml")));
    let mut names = std::iter::once(PathBuf::from(format!("{name}.yaml"))).chain(numbered);
    names.find(|file| file.symlink_metadata().is_err()).unwrap_or_else(|| PathBuf::from(name))
}

/// Rejects a file that cannot be created.
fn check_output(file: Option<&Path>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let problem = if file.symlink_metadata().is_ok() {
        "it exists"
    } else if folder.is_some_and(|folder| !folder.is_dir()) {
        "its folder does not exist"
    } else {
        return Ok(());
    };
    Err(Failure::Usage(format!(
        "cannot write {}: {problem}\nhint: name a new file",
        file.display()
    )))
}

/// Asks the planner for a plan, and measures the effort.
fn ask(
    args: &PlanMakeArgs,
    run: &str,
    planner: &Planner,
    given: &BTreeMap<String, Value>,
) -> Result<(PlannedWork, PlannerUse), Failure> {
    let name = planner.name();
    let mut used = PlannerUse { by: name.clone(), cost: Cost::default(), duration_micros: 0 };
    let mut problems = Vec::new();
    while problems.len() < REPLIES_MAX {
        let first =
            FirstPlan { run, goal: &args.goal, variables: given, unusable_answers: &problems };
        let asked = first.ask(planner, args.ledger.dir())?;
        asked.notes.iter().for_each(|note| print_message(&format!("{name} {note}")));
        let Checked { ruling, evidence, cost, duration, .. } = asked.checked;
        used.cost = used.cost.plus(cost.unwrap_or_default());
        used.duration_micros = used.duration_micros.saturating_add(duration);
        let Some(ruling) = ruling else {
            return Err(Failure::Usage(format!("{name} was stopped")));
        };
        let found = match ruling {
            Ruling::Pass => planner.plan(evidence.as_bytes()),
            Ruling::Fail => Err(evidence),
        };
        let checked = found.and_then(|PlannedWork { plan, commands }| {
            let plan = Plan {
                goal: if plan.goal.is_empty() { args.goal.clone() } else { plan.goal },
                ..plan
            };
            match validate(&plan).as_slice() {
                [] => Ok(PlannedWork { plan, commands }),
                faults => {
                    Err(faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
                }
            }
        });
        match checked {
            Ok(work) => return Ok((work, used)),
            Err(problem) => {
                print_message(&format!("{name} gave no usable plan: {problem}"));
                problems.push(problem);
            }
        }
    }
    Err(Failure::Rejected(format!(
        "{name} gave no usable plan in {REPLIES_MAX} attempts\nhint: see what it prints: {}",
        args.planner
    )))
}

/// The name of the run: that of the file, under which `ledger run FILE` finds it, or the first words of the goal.
fn default_name(args: &PlanMakeArgs) -> String {
    let stem = args.output.as_deref().and_then(Path::file_stem);
    stem.map_or_else(|| name_of(&args.goal), |stem| stem.to_string_lossy().into_owned())
}

/// The first words of a goal, as a name.
fn name_of(goal: &str) -> String {
    let words = goal.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty());
    words.take(NAME_WORDS).map(str::to_lowercase).collect::<Vec<_>>().join("-")
}

/// A request for the first plan of a run.
#[derive(Debug)]
struct FirstPlan<'a> {
    /// The name that the run will have.
    run: &'a str,
    /// The goal of the plan.
    goal: &'a str,
    /// The values of its inputs.
    variables: &'a BTreeMap<String, Value>,
    /// The problems of earlier replies.
    unusable_answers: &'a [String],
}

/// The end of a planner.
#[derive(Debug)]
struct Asked {
    checked: Checked,
    /// Other effects of the planner, for people.
    notes: Vec<String>,
}

impl FirstPlan<'_> {
    /// Run the planner in the current folder, and wait for it.
    ///
    /// # Errors
    /// `Io` if it cannot be started.
    fn ask(&self, planner: &Planner, ledger: &Path) -> LedgerResult<Asked> {
        let failed = |error| Error::io("create a folder for the planner's files", ledger, error);
        let files = tempfile::tempdir().map_err(failed)?;
        let ledger = std::path::absolute(ledger).map_err(failed)?;
        let before = FolderState::of_working_folder(&ledger);
        let options = ProcessOptions { ledger: ledger.clone(), run: RunId(0), worker: None };
        let mut workers = ProcessWorkers::within(files.path().to_owned(), options);
        workers.check(&Check {
            subject: Subject::Replan(RunId(0)),
            criterion: 0,
            command: planner.command.clone(),
            answer: CheckAnswer::Reply,
            environment: planner.environment(self.run),
            output: Json::from(first_request(
                (self.run, self.goal),
                self.variables,
                self.unusable_answers,
            )),
            timeout_seconds: Some(TIMEOUT_SECONDS),
        })?;
        loop {
            if let Some(Report::Checked(checked)) = workers.next(POLL_INTERVAL) {
                let changed = before.changes(&FolderState::of_working_folder(&ledger));
                return Ok(Asked { checked, notes: changed.into_iter().collect() });
            }
        }
    }
}
