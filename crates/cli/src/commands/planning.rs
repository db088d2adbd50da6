//! How the files that a plan names are when it is proposed or approved from the command line: noted
//! in the run, so that workers can be told what has changed since.
//!
//! Invariant: paths are those of the plan, from the folder in which the command is given.

use serde_json::Value;

use crate::runner::planned_files;
use crate::server::{Act, Answer};
use plan_ledger::ledger::{PLANNED_FILES, PlannedFiles};
use plan_ledger::plan::State;

use super::acting::Where;
use super::exit::{Code, Failure};
use super::say;

/// Who notes them.
const BY: &str = "planner";

/// Carry out an act that may make a version of a plan active, print what it came to, and note the
/// files of that version.
pub(super) fn act_and_note(place: &Where, act: &Act) -> Result<Code, Failure> {
    let mut client = place.client();
    let answer = client.ask(act)?;
    let code = place.print(&answer)?;
    if code == Code::Fine {
        // The act stands without it; where a runner was faster, its note does.
        let noted =
            note(place, &answer).and_then(|note| note.map(|it| client.ask(&it)).transpose());
        if let Err(failure) = noted {
            say(&format!("how the plan's files are now could not be noted: {failure}"));
        }
    }
    Ok(code)
}

/// The act that notes the files of a run's active version, if nobody has done it.
fn note(place: &Where, answer: &Answer) -> Result<Option<Act>, Failure> {
    let name = answer.lines.first().and_then(|line| line.get("run")).and_then(Value::as_str);
    let Some(name) = name else { return Ok(None) };
    place.look(|state| Ok(note_in(state, name)))
}

fn note_in(state: &State, name: &str) -> Option<Act> {
    let run = state.run_named(name)?;
    if PlannedFiles::of(run).is_some_and(|files| files.version == run.active) {
        return None;
    }
    let files = run.plan().and_then(|plan| planned_files(run.active, plan))?;
    let seen = run.variables.get(PLANNED_FILES).map_or(0, |variable| variable.version);
    Some(Act::Set {
        run: Some(name.to_owned()),
        name: PLANNED_FILES.to_owned(),
        value: files.to_json().value(),
        if_version: Some(seen),
        by: BY.to_owned(),
    })
}
