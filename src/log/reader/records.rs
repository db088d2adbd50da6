//! Iterators over the durable records: forwards, backwards, by kind, by stream, by sequence number.
//!
//! They stop at the first damage with an error that names the place. An index only makes them
//! faster: even if it is wrong, the result is that of a walk over the whole log.

use crate::error::{Error, Result};
use crate::log::notes::KIND_BATCH_KEY;
use crate::log::record::{LogItem, LoggedRecord, RecordStatus, StreamRule};

use super::log_reader::LogReader;
use super::reverse::ReverseWalk;
use super::select::{FilteredWalk, RecordFilter};
use super::walk::Walk;

pub(crate) fn records(
    reader: &LogReader,
    from: u64,
) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
    unpruned(reader, from, durable(Walk::new(reader, from)))
}

pub(crate) fn records_to(
    reader: &LogReader,
    from: u64,
    last: u64,
) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
    let count = last.saturating_add(1).saturating_sub(from);
    records(reader, from).take(usize::try_from(count).unwrap_or(usize::MAX))
}

pub(crate) fn for_each_record<E: From<Error>>(
    reader: &LogReader,
    from: u64,
    last: u64,
    mut visit: impl FnMut(LoggedRecord<&[u8]>) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    reader.check_unpruned(from)?;
    let mut walk = Walk::new(reader, from);
    let mut next = from.max(1);
    while next <= last
        && let Some(item) = walk.next_ref()
    {
        match item? {
            LogItem::DerivedDamage(_) => {}
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

pub(crate) fn records_reverse(
    reader: &LogReader,
    from: u64,
) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
    let is_durable = |item: &Result<LogItem>| {
        !matches!(
            item,
            Ok(LogItem::Record(_, RecordStatus::Unacknowledged) | LogItem::OpenEnd { .. })
        )
    };
    durable(ReverseWalk::new(reader, from).filter(is_durable))
}

pub(crate) fn records_of_kind(
    reader: &LogReader,
    kind: u16,
    from: u64,
) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
    unpruned(reader, from, durable(FilteredWalk::new(reader, RecordFilter::Kind(kind), from)))
}

pub(crate) fn records_of_stream(
    reader: &LogReader,
    stream: u64,
    streams: StreamRule,
    from: u64,
) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
    let selector = RecordFilter::Stream(stream, streams);
    unpruned(reader, from, durable(FilteredWalk::new(reader, selector, from)))
}

pub(crate) fn record(reader: &LogReader, seq: u64) -> Result<Option<LoggedRecord>> {
    reader.check_unpruned(seq)?;
    for item in Walk::with_resume_points(reader, seq) {
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

pub(crate) fn find_key(
    reader: &LogReader,
    key: &[u8],
    since_seq: u64,
) -> Result<Option<(u64, u64)>> {
    for record in records(reader, since_seq) {
        let record = record?;
        if record.kind == KIND_BATCH_KEY && record.payload == key {
            return Ok(Some((record.seq, record.seq + u64::from(record.batch_left))));
        }
    }
    Ok(None)
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
