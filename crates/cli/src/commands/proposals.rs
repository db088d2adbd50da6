//! `ledger plan propose`, `add` and `history`: how the plan of a run comes about.

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};

use crate::server::{Act, Approval, OnFailureWord, Policy, TextWord, run_or_only};
use plan_ledger::files;
use plan_ledger::ledger::time_text;
use plan_ledger::plan::{Review, Run, Step};

use super::acting::Where;
use super::args::TextChoice;
use super::exit::{Code, Failure};
use super::planning::act_and_note;
use super::worker::value_of;
use super::{answer_with, print, say};

const PROPOSE_EXAMPLES: &str = "\
Examples:
  ledger plan propose plan.yaml                    start a run of it, named after the file
  ledger plan propose plan.yaml --run again        the same under another name
  ledger plan propose plan.yaml --reason 'scope'   of a run that is there: its next version
  ledger plan propose plan.yaml --approval required
  ledger plan show tasks.json --json | ledger plan propose - --run tasks";

/// `ledger plan propose`.
#[derive(Debug, Args)]
#[command(after_help = PROPOSE_EXAMPLES)]
pub(super) struct ProposeArgs {
    #[command(flatten)]
    place: Where,
    /// The plan: a file in any form that is read, or - for one on standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// The run's name [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Why there is a new version
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Whether versions of a new run wait for somebody's yes
    #[arg(long, value_name = "WHEN", default_value = "automatic")]
    approval: ApprovalChoice,
    /// Who judges text criteria of a new run [default: judge; trust for files of other tools]
    #[arg(long, value_name = "WHO")]
    text: Option<TextChoice>,
    /// A new run deals nothing more once a step has failed for good
    #[arg(long)]
    fail_fast: bool,
}

/// Whether a version waits for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ApprovalChoice {
    /// It does not
    Automatic,
    /// It does
    Required,
}

/// `ledger plan propose`.
pub(super) fn propose(args: &ProposeArgs) -> Result<Code, Failure> {
    let is_standard = args.plan.as_os_str() == "-";
    let read = if is_standard {
        files::read_from("standard input", io::stdin().lock())
    } else {
        files::read(&args.plan)
    };
    let imported = read.map_err(|error| Failure::of_plan_file(&error))?;
    if !(imported.statuses.is_empty() && imported.done.is_empty() && imported.skipped.is_empty()) {
        let file = args.plan.display();
        say(&format!("{file}: its marks of what is done are left out; `ledger run` takes them"));
    }
    let run = match &args.run {
        Some(run) => run.clone(),
        None => args.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    if is_standard && args.run.is_none() {
        return Err(Failure::Usage("the run needs a name; give one with --run NAME".to_owned()));
    }
    let policy = Policy {
        approval: match args.approval {
            ApprovalChoice::Automatic => Approval::Automatic,
            ApprovalChoice::Required => Approval::Required,
        },
        text: match args.text {
            Some(TextChoice::Judge) => TextWord::Judge,
            // As for `ledger run`: files of other tools do not mean their texts as criteria.
            None if imported.format.is_native() => TextWord::Judge,
            Some(TextChoice::Trust) | None => TextWord::Trust,
        },
        on_failure: if args.fail_fast { OnFailureWord::FailFast } else { OnFailureWord::Continue },
    };
    let (plan, reason) = (Box::new(imported.plan), args.reason.clone());
    act_and_note(&args.place, &Act::Propose { run, plan, reason, policy })
}

const ADD_EXAMPLES: &str = "\
Examples:
  ledger plan add lint --goal 'run the linter' --after build --command 'make lint'
  ledger plan add --step '{\"id\": \"lint\", \"after\": [\"build\"]}' --reason 'found on the way'

It proposes a version of the plan with one more step; whether it waits for a yes is the run's
policy. What was done is kept.";

/// `ledger plan add`.
#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(super) struct AddArgs {
    #[command(flatten)]
    place: Where,
    /// The new step's id
    #[arg(value_name = "ID", required_unless_present = "step")]
    id: Option<String>,
    /// The whole step as JSON, as format/plan.md has it; @FILE for a file, - for standard input
    #[arg(long, value_name = "JSON", conflicts_with_all = ["id", "goal", "after", "command"])]
    step: Option<String>,
    /// What it is to do
    #[arg(long, value_name = "TEXT", default_value = "")]
    goal: String,
    /// A step that comes before it
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// The shell command that does it
    #[arg(long, value_name = "CMD")]
    command: Option<String>,
    /// The run's name; may be left out where only one goes on
    #[arg(long, value_name = "RUN", env = "LEDGER_RUN", hide_env_values = true)]
    run: Option<String>,
    /// Why
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
}

/// `ledger plan add`.
pub(super) fn add(args: &AddArgs) -> Result<Code, Failure> {
    let value = if let Some(step) = &args.step {
        value_of(step)?
    } else {
        let mut value = json!({ "id": args.id, "goal": args.goal, "after": args.after });
        if let (Some(command), Some(members)) = (&args.command, value.as_object_mut()) {
            members.insert("command".to_owned(), json!(command));
        }
        value
    };
    let step: Step = serde_json::from_value(value)
        .map_err(|error| Failure::Usage(format!("this is not a step of a plan: {error}")))?;
    let (run, reason) = (args.run.clone(), args.reason.clone());
    act_and_note(&args.place, &Act::AddStep { run, step: Box::new(step), reason })
}

const HISTORY_EXAMPLES: &str = "\
Examples:
  ledger plan history my-plan
  ledger plan history my-plan --json | jq -r .reason

It takes no lock. What a version changed: `ledger inspect DIR plan`.";

/// `ledger plan history`.
#[derive(Debug, Args)]
#[command(after_help = HISTORY_EXAMPLES)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    place: Where,
    /// The run's name; may be left out where only one goes on
    #[arg(value_name = "RUN")]
    run: Option<String>,
}

/// `ledger plan history`.
pub(super) fn history(args: &HistoryArgs) -> Result<Code, Failure> {
    args.place.look(|state| list_versions(args, run_or_only(state, args.run.as_deref())?))
}

fn list_versions(args: &HistoryArgs, run: &Run) -> Result<Code, Failure> {
    for (number, version) in (1..).zip(&run.versions) {
        let stands = match version.review {
            _ if number == run.active => "active",
            Some(Review::Rejected) => "rejected",
            None if number > run.active => "waiting",
            Some(Review::Approved) | None => "replaced",
        };
        let line: Value = json!({
            "type": "version", "run": run.name, "version": number, "hash": version.hash,
            "steps": version.step_count, "reason": version.reason, "status": stands,
        });
        if args.place.json {
            print(&format!("{line}\n"))?;
            continue;
        }
        let reason = match version.reason.as_str() {
            "" => String::new(),
            reason => format!(": {reason}"),
        };
        let (hash, steps) = (version.hash.short(), version.step_count);
        answer_with(&format!("version {number} ({hash}), {steps} steps, {stands}{reason}\n"))?;
    }
    if !args.place.json {
        answer_with(&format!("run {}, since {}\n", run.name, time_text(run.started)))?;
    }
    Ok(Code::Fine)
}
