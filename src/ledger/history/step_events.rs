//! The events of one step, newest first. Each event names the record of the previous one.

use crate::error::{Error, ErrorKind, Result};
use crate::ledger::codec::event::decode;
use crate::log::{LogReader, LoggedRecord};
use crate::plan::{Event, StepEvent, StepRecord};

/// The events of a step from record `last` backwards, down to the first record that is not pruned.
pub(crate) fn step_events(
    log: &LogReader,
    last: u64,
) -> impl Iterator<Item = Result<(LoggedRecord, StepEvent)>> + '_ {
    let mut seq = last;
    std::iter::from_fn(move || {
        if seq == 0 || seq < log.first_seq() {
            return None;
        }
        let read = log.record(seq).and_then(|record| {
            let Some(record) = record else { return Ok(None) };
            let (previous, event) = step_event(&record)?;
            Ok(Some((previous, record, event)))
        });
        match read {
            Ok(Some((previous, record, event))) => {
                seq = previous;
                Some(Ok((record, event)))
            }
            Ok(None) => None,
            Err(error) => {
                seq = 0;
                Some(Err(error))
            }
        }
    })
}

/// The event of a step in a record, and the record of the step's previous event (0 for none).
///
/// # Errors
/// `Corrupt` if the record is not an event of a step.
pub(crate) fn step_event(record: &LoggedRecord) -> Result<(u64, StepEvent)> {
    let seq = record.seq;
    let Some(Event::Step(StepRecord { previous, event, .. })) = decode(record)? else {
        let message = "expected an event of the step, since its next event names this record";
        return Err(Error::new(ErrorKind::Corrupt, message).at_seq(seq));
    };
    Ok((previous.min(seq.saturating_sub(1)), event))
}
