//! The attempts in flight while a log is exported: a span begins with its dispatch record, and ends with
//! the record that names its token.

use std::collections::BTreeMap;

use plan_ledger::log::LoggedRecord;
use plan_ledger::plan::{StepEvent, StepRecord};
use plan_ledger::{AttemptToken, RunId, StepNumber, Timestamp};

/// An attempt that has not ended.
#[derive(Debug)]
pub(super) struct OpenAttempt {
    pub(super) token: AttemptToken,
    pub(super) run: RunId,
    pub(super) step: StepNumber,
    pub(super) since: Timestamp,
    pub(super) attempt: u32,
    pub(super) worker: String,
}

/// The attempts that have not ended.
#[derive(Debug, Default)]
pub(super) struct OpenAttempts(BTreeMap<AttemptToken, OpenAttempt>);

impl OpenAttempts {
    /// Notes a dispatch. The result is the attempt that the record ends; none if its dispatch record is
    /// damaged, so that its start is unknown.
    pub(super) fn follow(&mut self, record: &LoggedRecord, of: &StepRecord) -> Option<OpenAttempt> {
        match &of.event {
            StepEvent::Dispatched(dispatch) => {
                let open = OpenAttempt {
                    token: AttemptToken(record.seq),
                    run: of.run,
                    step: of.step,
                    since: record.time,
                    attempt: dispatch.attempt,
                    worker: dispatch.worker.clone(),
                };
                self.0.insert(open.token, open);
                None
            }
            StepEvent::ReceiptRecorded(event) => self.0.remove(&event.token),
            StepEvent::AttemptLost(event) => self.0.remove(&event.token),
            _ => None,
        }
    }

    /// The attempts that are still in flight, in the order of dispatch.
    pub(super) fn into_rest(self) -> impl Iterator<Item = OpenAttempt> {
        self.0.into_values()
    }
}
