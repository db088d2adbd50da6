//! `ledger plan propose`: starts a run of a plan, or proposes the next version of a run's plan.

use std::path::{Path, PathBuf};

use clap::Args;

use plan_ledger::plan::Provenance;
use plan_ledger::{ApprovalPolicy, OnFailure, RunPolicy, TextPolicy};
use plan_ledger_files::PlanFile;

use crate::options::plan_file::{Approval, ReadForRun, approve, keep_ids, print_read_report};
use crate::options::{
    InputArgs, LedgerArgs, ReadPlanArgs, parse_author, parse_text_policy, plan_author,
};
use crate::output::{Code, Failure, print_message};
use crate::protocol::parse_words;
use crate::requests::ProposeRequest;

use super::planned_files::execute_and_note;

const EXAMPLES: &str = "\
Examples:
  ledger plan propose plan.yaml                    start a run of it, named after the file
  ledger plan propose plan.yaml --run again        another run of it
  ledger plan propose plan.yaml --reason 'scope'   the next version of an existing run's plan
  ledger plan propose plan.yaml --approval required
  ledger plan propose loan.yaml --set applicant_id=A-7291
  ledger plan show tasks.json --json | ledger plan propose - --run tasks";

/// Whether plan versions wait for approval.
const APPROVALS: &[(&str, &str)] = &[
    ("automatic", "They become active at once"),
    ("required", "They wait for `ledger plan approve`"),
];

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanProposeArgs {
    #[command(flatten)]
    ledger: LedgerArgs,
    /// The plan: a plan file of any form, or - for standard input
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// The run's name [default: the file's name without its extension]
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// The reason for the new version
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    /// Whether this version waits for approval, and all versions of a new run
    #[arg(long, value_name = "WHEN", default_value = "automatic")]
    #[arg(value_parser = parse_words::<ApprovalPolicy>(APPROVALS))]
    approval: ApprovalPolicy,
    /// How the text criteria of a new run are judged [default: judge; trust for files of other
    /// tools]
    #[arg(long, value_name = "WHO", value_parser = parse_text_policy())]
    text: Option<TextPolicy>,
    #[command(flatten)]
    inputs: InputArgs,
    #[command(flatten)]
    read: ReadPlanArgs,
    /// Approve the commands of a file of another tool, as listed, and its default reading
    #[arg(long)]
    yes: bool,
    /// The author of the plan, for the record
    #[arg(long, value_name = "WHO", env = "LEDGER_BY", hide_env_values = true)]
    #[arg(value_parser = parse_author)]
    by: Option<String>,
    /// A new run stops dispatching after the first final failure of a step
    #[arg(long)]
    fail_fast: bool,
}

pub(super) fn propose(args: &PlanProposeArgs) -> Result<Code, Failure> {
    let run = match &args.run {
        Some(run) => run.clone(),
        None => args.plan.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let (imported, found) = approved(args, &run)?;
    // As for `ledger run`: the texts in files of other tools are not criteria.
    let default = if imported.format.is_native() { TextPolicy::Judge } else { TextPolicy::Trust };
    let policy = RunPolicy {
        approval: args.approval,
        text: args.text.unwrap_or(default),
        on_failure: if args.fail_fast { OnFailure::FailFast } else { OnFailure::Continue },
    };
    let inputs = args.inputs.values(&imported.plan)?;
    let author = args.by.clone().or_else(plan_author);
    let provenance = Provenance { author, ..found };
    let request = ProposeRequest {
        reason: args.reason.clone(),
        policy,
        inputs,
        provenance: Some(provenance).filter(|known| *known != Provenance::default()),
        ..ProposeRequest::of(run, imported.plan)
    };
    execute_and_note(&args.ledger, request).map(|(code, _)| code)
}

/// The plan and its source, once a person has approved its reading and its commands.
fn approved(args: &PlanProposeArgs, run: &str) -> Result<(PlanFile, Provenance), Failure> {
    let (file, ledger, yes) = (args.plan.as_path(), args.ledger.dir(), args.yes);
    let is_stdin = file.as_os_str() == "-";
    let mut read = args.read.clone();
    loop {
        let (mut imported, found, is_read) = if is_stdin {
            (read.read_stdin()?, Provenance::default(), read.has_reading())
        } else {
            let ReadForRun { file: marked, read, is_read } =
                read.read_for_run(file, ledger, run)?;
            let found = read.provenance(file, &marked);
            (marked.into_plan_file(), found, is_read)
        };
        report(file, &imported);
        if is_stdin && args.run.is_none() {
            let message = "a plan on standard input has no name\nhint: add --run NAME";
            return Err(Failure::Usage(message.to_owned()));
        }
        keep_ids(&mut imported, ledger, run);
        match approve(&imported, |_| true, Approval { plan: file, ledger, yes, is_read })? {
            None => return Ok((imported, found)),
            // Standard input cannot be read again.
            Some(reading) if is_stdin => {
                let hint = format!("add --reading {reading}");
                let message = format!("a plan on standard input is read once\nhint: {hint}");
                return Err(Failure::Usage(message));
            }
            Some(reading) => read = read.with_reading(reading),
        }
    }
}

/// Prints how the file was read.
fn report(file: &Path, imported: &PlanFile) {
    let is_plain = imported.report.is_empty() && imported.commands.is_empty();
    if !is_plain || !imported.readings.is_empty() {
        print_read_report(file, imported);
    }
    if !(imported.statuses.is_empty() && imported.done.is_empty() && imported.skipped.is_empty()) {
        let file = file.display();
        print_message(&format!(
            "{file}: marks of finished steps are ignored; `ledger run` takes them over"
        ));
    }
}
