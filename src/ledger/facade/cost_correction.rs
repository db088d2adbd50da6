//! Corrections of the cost of an attempt, checked against the attempt's records.

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::history::cost::charged;
use crate::ledger::transaction::commit::{Commit, step_of_attempt};
use crate::ledger::transaction::engine::Engine;
use crate::ledger::transaction::submit::CommitOptions;
use crate::plan::{AttemptToken, Command, Cost, Rejection, State};

/// See [`crate::Ledger::correct_cost`].
pub(crate) fn correct_cost(
    engine: &Engine,
    token: AttemptToken,
    cost: Cost,
    expected: Option<Cost>,
    by: &str,
) -> Result<Commit> {
    let last_of = |state: &State| step_of_attempt(state, token).map_or(0, |step| step.last_seq);
    loop {
        let last = last_of(&*engine.state()?);
        let found = charged(&engine.reader()?, last, token)?;
        let build = |state: &State| match (expected, found) {
            _ if last_of(state) != last => {
                Err(Error::new(ErrorKind::Conflict, "the step changed in the meantime"))
            }
            (Some(expected), Some(found)) if expected != found => {
                Err(Rejection::ChargeDiffers { expected, found }.into())
            }
            _ => Ok(Command::CorrectCost { token, cost, charged: expected, by: by.to_owned() }),
        };
        let submitted =
            engine.transact(CommitOptions::default(), |transaction| transaction.run_with(build));
        match submitted.wait_commit() {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            corrected => return corrected.map(|(commit, ())| commit),
        }
    }
}
