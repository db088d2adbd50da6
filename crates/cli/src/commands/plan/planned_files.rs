//! Records the state of a plan's files when a version is proposed or approved, so that workers
//! learn which files have changed since.
//!
//! Paths are those of the plan, relative to the working folder of the command.

use serde_json::Value;

use plan_ledger::State;
use plan_ledger::internals::ledger::{PLANNED_FILES, PlannedFiles};

use crate::commands::inspect::read_state;
use crate::options::LedgerArgs;
use crate::output::{Code, Failure, print_message};
use crate::protocol::Answer;
use crate::protocol::hand_off::files::planned_files;
use crate::requests::{Request, SetRequest};

/// The author of the note.
const AUTHOR: &str = "planner";

/// Sends a request that may activate a plan version, prints the answer, and notes the files of the
/// active version.
pub(super) fn execute_and_note(
    ledger: &LedgerArgs,
    request: impl Into<Request>,
) -> Result<(Code, Answer), Failure> {
    let mut client = ledger.client();
    let answer = client.call(&request.into())?;
    let code = ledger.print(&answer)?;
    if code == Code::Success {
        // The request succeeded with or without the note. A runner may have noted the files first.
        let noted = note_of_answer(ledger, &answer)
            .and_then(|note| note.map(|it| client.call(&it)).transpose());
        if let Err(failure) = noted {
            print_message(&format!("cannot note the state of the plan's files: {failure}"));
        }
    }
    Ok((code, answer))
}

/// The request that notes the files of the run in an answer, if it is needed.
fn note_of_answer(ledger: &LedgerArgs, answer: &Answer) -> Result<Option<Request>, Failure> {
    let name = answer.lines.first().and_then(|line| line.get("run")).and_then(Value::as_str);
    let Some(name) = name else { return Ok(None) };
    read_state(ledger.dir(), |state| Ok(note(state, name)))
}

fn note(state: &State, name: &str) -> Option<Request> {
    let run = state.run_named(name)?;
    if PlannedFiles::of(run).is_some_and(|files| files.version == run.active) {
        return None;
    }
    let files = run.plan().and_then(|plan| planned_files(run.active, plan))?;
    let seen = run.variables.get(PLANNED_FILES).map_or(0, |variable| variable.version);
    let request = SetRequest {
        run: name.to_owned().into(),
        name: PLANNED_FILES.to_owned(),
        value: files.to_json().value(),
        if_version: Some(seen),
        by: AUTHOR.to_owned().into(),
    };
    Some(request.into())
}
