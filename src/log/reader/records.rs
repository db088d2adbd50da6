//! Iterators over the durable records: forwards, backwards, by kind, by stream, by sequence number.
//!
//! They stop at the first damage with an error that names the place. An index only makes them
//! faster: even if it is wrong, the result is that of a walk over the whole log.

use crate::error::{Error, Result};
use crate::log::notes::{BatchKey, KIND_BATCH_KEY};
use crate::log::record::{LogItem, LoggedRecord, RecordStatus, StreamRule};

use super::log_reader::LogReader;

impl LogReader {
    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage, naming
    /// the place; `Io`.
    pub fn records(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        unpruned(self, from, durable(self.walk(from)))
    }

    /// The durable records from `from` to `last`. Nothing after the last one is read, so damage
    /// there does not matter.
    ///
    /// # Errors
    /// As [`LogReader::records`], for the records between the two.
    pub fn records_to(
        &self,
        from: u64,
        last: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        let count = last.saturating_add(1).saturating_sub(from);
        self.records(from).take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Visit the durable records from `from` to `last` without copying their payloads.
    ///
    /// # Errors
    /// As [`LogReader::records_to`], and the first error of `visit`.
    pub fn for_each_record<E: From<Error>>(
        &self,
        from: u64,
        last: u64,
        mut visit: impl FnMut(LoggedRecord<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.check_unpruned(from)?;
        let mut walk = self.walk(from);
        let mut next = from.max(1);
        while next <= last
            && let Some(item) = walk.next_ref()
        {
            match item? {
                LogItem::DerivedDamage(_) => {}
                LogItem::Damage(damage) if damage.is_of_header_only() => {}
                LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. } => break,
                LogItem::Damage(damage) => return Err(damage.into_error().into()),
                LogItem::Record(record, _) => {
                    next = record.seq.saturating_add(1);
                    visit(record)?;
                }
            }
        }
        Ok(())
    }

    /// The durable records from `from` back to the first record of the log.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, naming the place; `Io`.
    pub fn records_reverse(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        let is_durable = |item: &Result<LogItem>| {
            !matches!(
                item,
                Ok(LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. })
            )
        };
        durable(self.walk_reverse(from).filter(is_durable))
    }

    /// The durable records of a kind from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// contain such a record; `Io`.
    pub fn records_of_kind(
        &self,
        kind: u16,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        unpruned(self, from, durable(self.walk_of_kind(kind, from)))
    }

    /// The durable records of a stream from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// contain such a record; `Io`.
    #[doc(hidden)]
    pub fn records_of_stream(
        &self,
        stream: u64,
        streams: StreamRule,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        unpruned(self, from, durable(self.walk_of_stream(stream, streams, from)))
    }

    /// One durable record; `None` if no record has this number yet. A segment without an index is
    /// scanned once for all later calls of this reader.
    ///
    /// # Errors
    /// `Pruned` if the log no longer holds it; `Corrupt` if it is damaged or missing; `Io`.
    pub fn record(&self, seq: u64) -> Result<Option<LoggedRecord>> {
        self.check_unpruned(seq)?;
        for item in self.walk_with_resume_points(seq) {
            match item? {
                LogItem::Record(record, RecordStatus::Durable | RecordStatus::AfterDamage) => {
                    return Ok(Some(record).filter(|record| record.seq == seq));
                }
                LogItem::Damage(damage) if (damage.first_seq..=damage.last_seq).contains(&seq) => {
                    return Err(damage.into_error());
                }
                LogItem::Record(..) | LogItem::OpenEnd { .. } => return Ok(None),
                LogItem::Damage(_) | LogItem::DerivedDamage(_) => {}
            }
        }
        Ok(None)
    }

    /// The first and last sequence number of the durable batch with this key, searched from record
    /// `since_seq` on; the first one is the record of the key itself. `None` if no such batch was
    /// committed.
    ///
    /// After an append with an unknown outcome, open the log again and call this function to learn
    /// whether the batch was committed. `since_seq` must not be above the first record of the
    /// batch; the last acknowledgement before the append is a good choice.
    ///
    /// # Errors
    /// `Pruned` if the log no longer holds record `since_seq`; `Corrupt` if a record is damaged;
    /// `Io`.
    pub fn find_key(&self, key: &BatchKey, since_seq: u64) -> Result<Option<(u64, u64)>> {
        let payload = key.payload();
        for record in self.records(since_seq) {
            let record = record?;
            if record.kind == KIND_BATCH_KEY && record.payload == payload {
                return Ok(Some((record.seq, record.seq + u64::from(record.batch_left))));
            }
        }
        Ok(None)
    }
}

/// The records, or the one error that the first of them were pruned.
fn unpruned<'a>(
    reader: &LogReader,
    from: u64,
    records: impl Iterator<Item = Result<LoggedRecord>> + 'a,
) -> impl Iterator<Item = Result<LoggedRecord>> + 'a {
    let refusal = reader.check_unpruned(from).err();
    let is_refused = refusal.is_some();
    refusal.map(Err).into_iter().chain(records.take_while(move |_| !is_refused))
}

/// The durable records among some items, up to the first damage.
fn durable<'a>(
    mut items: impl Iterator<Item = Result<LogItem>> + 'a,
) -> impl Iterator<Item = Result<LoggedRecord>> + 'a {
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let item = match items.next()? {
                Ok(LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. }) => {
                    None
                }
                Ok(LogItem::DerivedDamage(_)) => continue,
                Ok(LogItem::Damage(damage)) if damage.is_of_header_only() => continue,
                Ok(LogItem::Record(record, _)) => Some(Ok(record)),
                Ok(LogItem::Damage(damage)) => Some(Err(damage.into_error())),
                Err(error) => Some(Err(error)),
            };
            is_over = !matches!(item, Some(Ok(_)));
            return item;
        }
        None
    })
}
