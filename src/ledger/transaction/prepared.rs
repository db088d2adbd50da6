//! Prepares the command of a transaction before the ledger's lock is taken: the large output of a
//! receipt is stored beside the log, and the receipt that its attempt has already is read.
//!
//! Invariant: a blob is reserved from before it is stored until the record that names it is durable.

use std::borrow::Cow;

use crate::error::{Error, ErrorKind, Result};
use crate::format::PAYLOAD_LENGTH_MAX;
use crate::ledger::blobs::KeepOutput;
use crate::ledger::codec::values::encoded_length;
use crate::plan::{AttemptToken, Command, Proof, Receipt};

use super::commit::step_of_attempt;
use super::engine::Engine;
use super::repeated_receipt::{EarlierReceipt, RecentReceipts};

/// A command that is ready for its transaction.
#[derive(Debug)]
pub(super) struct Prepared<'a> {
    /// The command. A large output is a blob in it.
    pub(super) command: Cow<'a, Command>,
    /// For a receipt: the one that its attempt has already.
    pub(super) earlier: EarlierReceipt,
    /// The receipts that this process remembers.
    pub(super) receipts: &'a RecentReceipts,
}

impl<'a> Prepared<'a> {
    /// Prepare a command. The caller has reserved its blobs.
    ///
    /// # Errors
    /// `TooLarge`; `Rejected` for a receipt with an output that does not exist; errors of the disk.
    pub(super) fn of(engine: &'a Engine, command: &'a Command) -> Result<Self> {
        let mut earlier = EarlierReceipt::default();
        let mut prepared = Cow::Borrowed(command);
        if let Command::RecordReceipt { token, .. } = command {
            earlier = earlier_receipt(engine, *token)?;
            earlier = engine.receipts.get(*token).unwrap_or(earlier);
            // No output of a receipt that will be rejected fills the disk.
            let is_rejected = is_rejected(engine, *token, earlier)?;
            let keep = if is_rejected { KeepOutput::Compared } else { KeepOutput::Stored };
            prepared = engine.store_output(command, keep)?;
        }
        expect_fitting(&prepared)?;
        Ok(Self { command: prepared, earlier, receipts: &engine.receipts })
    }
}

impl Engine {
    /// The command with its large inline output replaced by a blob.
    pub(super) fn store_output<'a>(
        &self,
        command: &'a Command,
        keep: KeepOutput,
    ) -> Result<Cow<'a, Command>> {
        let Command::RecordReceipt { token, proof, receipt } = command else {
            return Ok(Cow::Borrowed(command));
        };
        let threshold = self.environment.blob_threshold;
        let declared = || self.declared_outputs(*token, *proof);
        Ok(match self.outputs.store(receipt, threshold, keep, declared)? {
            None => Cow::Borrowed(command),
            Some(output) => {
                let receipt = Receipt { output, ..receipt.clone() };
                Cow::Owned(Command::RecordReceipt { token: *token, proof: *proof, receipt })
            }
        })
    }

    /// The names of the outputs that the step of an attempt declares; `None` if the attempt was never
    /// dispatched, or the token is not that of its worker.
    fn declared_outputs(&self, token: AttemptToken, proof: Proof) -> Result<Option<Vec<String>>> {
        let mut shared = self.lock()?;
        shared.refresh(&self.log)?;
        let state = &shared.state;
        if !state.is_proven(token, proof) {
            return Ok(None);
        }
        let Some((run, step, _)) = state.dispatched.get(&token) else { return Ok(None) };
        let step = state.runs.get(run).and_then(|run| run.plan_step(*step));
        Ok(Some(step.map(|step| step.outputs().owned()).unwrap_or_default()))
    }
}

/// Whether no more receipts of an attempt are recorded: it is over, and too many receipts came
/// late.
fn is_rejected(engine: &Engine, token: AttemptToken, earlier: EarlierReceipt) -> Result<bool> {
    if !earlier.is_full() {
        return Ok(false);
    }
    let mut shared = engine.lock()?;
    shared.refresh(&engine.log)?;
    Ok(!shared.state.in_flight.contains_key(&token))
}

/// The recorded receipt of an attempt that is no longer in flight, unless this process remembers
/// it.
fn earlier_receipt(engine: &Engine, token: AttemptToken) -> Result<EarlierReceipt> {
    match unremembered_attempt(engine, token)? {
        Some(last) => {
            // A reader sees durable records only, and reads them backwards from the last one.
            if last > engine.log.last_durable().seq {
                engine.flush()?;
            }
            EarlierReceipt::find(&engine.reader()?, last, token)
        }
        None => Ok(EarlierReceipt::default()),
    }
}

/// Whether a receipt of this attempt comes late, and must be compared with one in the log, which
/// takes time.
pub(crate) fn must_read_receipt(engine: &Engine, token: AttemptToken) -> Result<bool> {
    unremembered_attempt(engine, token).map(|last| last.is_some())
}

/// The last record of the step, for an attempt that is no longer in flight and has no remembered
/// receipt.
fn unremembered_attempt(engine: &Engine, token: AttemptToken) -> Result<Option<u64>> {
    if engine.receipts.get(token).is_some() {
        return Ok(None);
    }
    let mut shared = engine.lock()?;
    shared.refresh(&engine.log)?;
    let state = &shared.state;
    if state.in_flight.contains_key(&token) {
        return Ok(None);
    }
    Ok(step_of_attempt(state, token).map(|step| step.last_seq))
}

/// Reject a payload that exceeds a record's limit. The log would reject it too, but only after its
/// events were applied, and the state would have to be folded again. Other commands that are too
/// large are rare.
fn expect_fitting(command: &Command) -> Result<()> {
    let (what, length) = match command {
        Command::RecordReceipt { receipt, .. } => ("receipt", encoded_length(receipt)),
        Command::SetVariable { value, .. } => ("value", encoded_length(value)),
        _ => return Ok(()),
    };
    if length <= u64::from(PAYLOAD_LENGTH_MAX) {
        return Ok(());
    }
    let message = format!(
        "{what} is too large: expected at most {PAYLOAD_LENGTH_MAX} bytes, found {length}; put large \
         results into a file and record its path"
    );
    Err(Error::new(ErrorKind::TooLarge, message))
}
