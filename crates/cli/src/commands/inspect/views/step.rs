//! `ledger inspect DIR step RUN STEP`: one step, with its plan, status and history.
//!
//! Invariants: the history follows the links between the step's records. If damage breaks them, the
//! whole log is read, including the records after the damage. The status comes only from the state
//! before the damage.

use clap::Args;

use plan_ledger::log::{LogItem, LoggedRecord, RecordStatus};
use plan_ledger::{Event, Run, RunId, StepNumber};
use plan_ledger_views::{
    HistoryEntry, KnownBlob, KnownBlobs, KnownStep, RecordContent, StepView, WhyView,
};

use crate::commands::inspect::context::{Form, InspectContext};
use crate::commands::inspect::ledger_at::{AtArg, LedgerAt};
use crate::commands::inspect::output::Output;
use crate::options::StepArg;
use crate::output::{Code, Failure, code_of};
use crate::protocol::hand_off::files::stale_steps;

use super::why::explained;

const STEP_EXAMPLES: &str = "\
Examples:
  ledger inspect .ledger step my-plan build        a step by its id
  ledger inspect .ledger step my-plan '#37'        by its number
  ledger inspect .ledger step my-plan build --full with whole outputs";

/// One step: its plan, its status and the reasons, and its complete history
#[derive(Debug, Args)]
#[command(after_help = STEP_EXAMPLES)]
pub(crate) struct StepArgs {
    #[command(flatten)]
    of: StepArg,
    /// Print outputs and logs whole, however long
    #[arg(long)]
    full: bool,
    #[command(flatten)]
    at: AtArg,
}

pub(crate) fn step(
    args: &StepArgs,
    context: InspectContext<'_>,
    out: &mut Output<'_>,
) -> Result<Code, Failure> {
    let (mut ledger, id) = LedgerAt::of_run(context, args.at, args.of.run())?;
    let number = ledger.step(ledger.run(id)?, args.of.step())?;
    let entries = history(&mut ledger, id, number)?;
    let run = ledger.run(id)?;
    let (found, known) = (explained(&ledger, run, number).ok(), ledger.known(run));
    let why = found.as_ref().map(|it| WhyView::of(&known, it, ledger.repeats(run), None));
    let known = KnownStep {
        why,
        stale_files: stale_files(&ledger, run, number),
        blobs: blobs(&ledger, &entries, args.full && context.form == Form::Text),
        has_losses: ledger.has_losses(),
        first_seq: ledger.view.log().first_seq(),
    };
    let view = StepView::of(run, number, &entries, &known);
    match context.form {
        Form::Json => {
            out.json(&view.line)?;
            view.attempts().iter().try_for_each(|line| out.json(line))?;
            view.records().try_for_each(|line| out.json(&line))?;
        }
        Form::Text => {
            out.document(&view.heading())?;
            ledger.print_past(out)?;
            ledger.print_first_record(out)?;
            out.document(&view.document(args.full))?;
        }
    }
    ledger.finish(out)
}

/// The files of a step that did not begin which changed since its plan was made, if that is known.
fn stale_files(ledger: &LedgerAt<'_>, run: &Run, number: StepNumber) -> Option<Vec<String>> {
    let waits = run.step(number).is_some_and(|step| step.attempts == 0);
    if ledger.is_past() || !waits {
        return None;
    }
    let stale = stale_steps(run, Some(number))?;
    Some(stale.into_iter().flat_map(|(_, files)| files).collect())
}

/// The blobs of the outputs in receipts; they are read only if the whole outputs are requested.
fn blobs(ledger: &LedgerAt<'_>, entries: &[HistoryEntry], are_read: bool) -> KnownBlobs {
    let known = |entry: &HistoryEntry| {
        let output = &entry.receipt()?.output;
        let state = ledger.view.blob_state(output)?.to_string();
        let read = || ledger.view.output(output).map_err(|error| error.to_string());
        Some((entry.record.seq, KnownBlob { state, value: are_read.then(read) }))
    };
    entries.iter().filter_map(known).collect()
}

/// The history of a step up to the record of the state: by the links between its records or, if
/// damage breaks them, by a scan of the whole log.
pub(crate) fn history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<HistoryEntry>, Failure> {
    // The links between records end at a lost one.
    if ledger.code() == Code::Success && ledger.state.lost.is_empty() {
        match ledger.view.step_records(ledger.run(id)?, number) {
            Ok(records) => {
                let entry = |record: LoggedRecord| {
                    let content = RecordContent::of(&record);
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    HistoryEntry { record, status: RecordStatus::Durable, content }
                };
                return Ok(records.into_iter().map(entry).collect());
            }
            Err(error) if code_of(&error) == Code::Damaged => {
                ledger.add_unread(error.to_string());
            }
            Err(error) => return Err(error.into()),
        }
    }
    whole_history(ledger, id, number)
}

fn whole_history(
    ledger: &mut LedgerAt<'_>,
    id: RunId,
    number: StepNumber,
) -> Result<Vec<HistoryEntry>, Failure> {
    let mut history = Vec::new();
    let mut missing = Vec::new();
    for item in ledger.view.log().walk(1) {
        match item? {
            LogItem::Record(record, status) => {
                let content = RecordContent::of(&record);
                if let RecordContent::Event(Event::Step(event)) = &content
                    && event.run == id
                    && event.step == number
                {
                    let record = LoggedRecord { payload: Vec::new(), ..record };
                    history.push(HistoryEntry { record, status, content });
                }
            }
            LogItem::Damage(damage) => missing.push(damage),
            LogItem::DerivedDamage(_) | LogItem::OpenEnd { .. } => {}
        }
    }
    for damage in missing {
        ledger.add_damage(damage);
    }
    Ok(history)
}
