//! `ledger verify --against`: two copies of a ledger, compared record by record.

use std::cmp::Ordering;
use std::path::Path;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

use plan_ledger::log::{LogItem, LogReader, RecordStatus};
use plan_ledger::{Environment, Result as LedgerResult};

use crate::output::Failure;
use crate::protocol::{counted, hex};

use crate::commands::store::source::{environment_for, without_secret};

/// The result of `--against`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct ComparisonLine {
    /// The other copy, as given.
    against: String,
    /// How many records both copies have, with equal chain values.
    common: u64,
    /// The first record with different chain values; null if there is none.
    differs: Option<DifferenceJson>,
    /// The records that only this copy has; null if there are none.
    only_here: Option<RangeJson>,
    /// The records that only the other copy has; null if there are none.
    only_there: Option<RangeJson>,
}

/// A record that is not the same in two copies.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct DifferenceJson {
    /// Its chain value here.
    here: String,
    /// Its sequence number.
    seq: u64,
    /// Its chain value there.
    there: String,
}

/// Records.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
struct RangeJson {
    /// The first one.
    first_seq: u64,
    /// The last one.
    last_seq: u64,
}

impl RangeJson {
    fn add(range: &mut Option<Self>, seq: u64) {
        let first_seq = range.map_or(seq, |range| range.first_seq);
        *range = Some(Self { first_seq, last_seq: seq });
    }
}

/// Compares the ledger at `dir` with another copy of it. Records that cannot be read are in neither.
///
/// # Errors
/// `Rejected` if it is another ledger; the errors of opening and reading both.
pub(super) fn compare(
    dir: &Path,
    against: &Path,
    environment: &Environment,
) -> Result<ComparisonLine, Failure> {
    let open = |path: &Path| -> Result<LogReader, Failure> {
        Ok(LogReader::open(&environment_for(path, environment)?.storage, path)?)
    };
    let (here, there) = (open(dir)?, open(against)?);
    let name = without_secret(against);
    if let (Some(own), Some(other)) = (here.uids(), there.uids())
        && own != other
    {
        let (expected, found) = (hex(&own.0), hex(&other.0));
        let message = format!(
            "{name} is another ledger: expected {expected}, found {found}\n\
             hint: compare it with a copy of the same ledger"
        );
        return Err(Failure::Rejected(message));
    }
    let mut line = ComparisonLine {
        against: name,
        common: 0,
        differs: None,
        only_here: None,
        only_there: None,
    };
    let (mut ours, mut theirs) = (chains(&here), chains(&there));
    let (mut own, mut other) = (ours.next().transpose()?, theirs.next().transpose()?);
    loop {
        let order = match (&own, &other) {
            (None, None) => return Ok(line),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((own, _)), Some((other, _))) => own.cmp(other),
        };
        match (order, &own, &other) {
            (Ordering::Equal, Some((seq, here)), Some((_, there))) if here != there => {
                let differs =
                    DifferenceJson { here: here.clone(), seq: *seq, there: there.clone() };
                // Every record after it differs, too.
                return Ok(ComparisonLine { differs: Some(differs), ..line });
            }
            (Ordering::Less, Some((seq, _)), _) => RangeJson::add(&mut line.only_here, *seq),
            (Ordering::Greater, _, Some((seq, _))) => RangeJson::add(&mut line.only_there, *seq),
            _ => line.common += 1,
        }
        if order != Ordering::Greater {
            own = ours.next().transpose()?;
        }
        if order != Ordering::Less {
            other = theirs.next().transpose()?;
        }
    }
}

/// The durable records of a log, and their chain values.
fn chains(reader: &LogReader) -> impl Iterator<Item = LedgerResult<(u64, String)>> + '_ {
    reader.walk(1).filter_map(|item| match item {
        Ok(LogItem::Record(record, RecordStatus::Durable)) => {
            Some(Ok((record.seq, record.chain.to_string())))
        }
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

impl ComparisonLine {
    /// Whether the copies have different records in one place.
    pub(super) fn is_different(&self) -> bool {
        self.differs.is_some()
    }

    /// The result for people.
    pub(super) fn text(&self) -> String {
        let common = counted(self.common, "common record");
        let mut lines = vec![format!("  against  {}: {common}", self.against)];
        if let Some(DifferenceJson { here, seq, there }) = &self.differs {
            lines.push(format!(
                "not the same: record {seq} and all after it: chain {here} here, {there} there"
            ));
        }
        for (range, place) in [(self.only_here, "here"), (self.only_there, "there")] {
            lines.extend(range.map(|RangeJson { first_seq, last_seq }| {
                format!("           only {place}: records {first_seq} to {last_seq}")
            }));
        }
        lines.join("\n")
    }
}
