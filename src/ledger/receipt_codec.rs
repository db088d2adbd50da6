//! The receipt's payload in its schemas: 1 with the output in it, 2 with an output that may be a
//! blob, 3 with what the attempt left in the world. The lowest schema that holds a receipt is written, so that a ledger without blobs needs
//! no newer program.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::plan::{
    Artifact, AttemptToken, Cost, Json, Micros, Outcome, Output, Receipt, ReceiptRecorded,
    ReceiptRefused,
};

/// Schema of a receipt whose output is in it.
pub(super) const INLINE: u16 = 1;
/// Schema of a receipt whose output is a blob.
pub(super) const BLOB: u16 = 2;
/// Schema of a receipt that says what the attempt left in the world.
pub(super) const WORLD: u16 = 3;

/// The lowest schema that holds a receipt.
pub(super) fn schema_of(receipt: &Receipt) -> u16 {
    match (receipt.disposition, &receipt.output) {
        (Some(_), _) => WORLD,
        (None, Output::Blob(_)) => BLOB,
        (None, Output::Inline(_)) => INLINE,
    }
}

/// The output of a receipt that schema 1 holds.
fn inline(receipt: &Receipt) -> Option<&Json> {
    receipt.output.inline().filter(|_| schema_of(receipt) == INLINE)
}

/// Schema 1.
#[derive(Serialize, Deserialize)]
pub(super) struct Inline<'a> {
    outcome: Cow<'a, Outcome>,
    output: Cow<'a, Json>,
    variables: Cow<'a, [(String, Json)]>,
    artifacts: Cow<'a, [Artifact]>,
    side_effects: Cow<'a, [String]>,
    cost: Cost,
    duration: Micros,
    log_tail: Cow<'a, str>,
}

impl<'a> Inline<'a> {
    fn of(receipt: &'a Receipt, output: &'a Json) -> Self {
        let Receipt { outcome, output: _, variables, artifacts, side_effects, .. } = receipt;
        Self {
            outcome: Cow::Borrowed(outcome),
            output: Cow::Borrowed(output),
            variables: Cow::Borrowed(variables),
            artifacts: Cow::Borrowed(artifacts),
            side_effects: Cow::Borrowed(side_effects),
            cost: receipt.cost,
            duration: receipt.duration,
            log_tail: Cow::Borrowed(&receipt.log_tail),
        }
    }

    fn into_receipt(self) -> Receipt {
        Receipt {
            outcome: self.outcome.into_owned(),
            output: Output::Inline(self.output.into_owned()),
            variables: self.variables.into_owned(),
            artifacts: self.artifacts.into_owned(),
            side_effects: self.side_effects.into_owned(),
            cost: self.cost,
            duration: self.duration,
            log_tail: self.log_tail.into_owned(),
            disposition: None,
        }
    }
}

/// `ReceiptRecorded` in schema 1.
#[derive(Serialize, Deserialize)]
pub(super) struct InlineRecorded<'a> {
    token: AttemptToken,
    receipt: Inline<'a>,
}

impl<'a> InlineRecorded<'a> {
    /// The event in schema 1, if that holds it.
    pub(super) fn of(event: &'a ReceiptRecorded) -> Option<Self> {
        let output = inline(&event.receipt)?;
        Some(Self { token: event.token, receipt: Inline::of(&event.receipt, output) })
    }
}

impl From<InlineRecorded<'_>> for ReceiptRecorded {
    fn from(event: InlineRecorded<'_>) -> Self {
        Self { token: event.token, receipt: event.receipt.into_receipt() }
    }
}

/// `ReceiptRefused` in schema 1.
#[derive(Serialize, Deserialize)]
pub(super) struct InlineRefused<'a> {
    token: AttemptToken,
    reason: Cow<'a, str>,
    receipt: Inline<'a>,
}

impl<'a> InlineRefused<'a> {
    /// The event in schema 1, if that holds it.
    pub(super) fn of(event: &'a ReceiptRefused) -> Option<Self> {
        let output = inline(&event.receipt)?;
        let receipt = Inline::of(&event.receipt, output);
        Some(Self { token: event.token, reason: Cow::Borrowed(&event.reason), receipt })
    }
}

impl From<InlineRefused<'_>> for ReceiptRefused {
    fn from(event: InlineRefused<'_>) -> Self {
        let receipt = event.receipt.into_receipt();
        Self { token: event.token, reason: event.reason.into_owned(), receipt }
    }
}
