//! The ways to read a log: forwards from any record, backwards, by kind, by stream, by number, and
//! along with a writer.
//!
//! Invariants: whatever an index says, each finds what a walk over everything finds; none writes,
//! takes a lock or opens a file for writing.

use crate::error::{Error, Result};

use super::backward::WalkBack;
use super::follow::Follow;
use super::options::StreamOf;
use super::reader::LogReader;
use super::select::{Selection, Wanted};
use super::walk::{Item, LoggedRecord, Proof, Walk};

impl LogReader {
    /// Everything from record `from` on that the log has: records, and damage where it stands.
    /// Records that were pruned are neither: the walk begins behind them.
    #[must_use]
    pub fn walk(&self, from: u64) -> Walk<'_> {
        Walk::new(self, from)
    }

    /// The durable records from `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage, naming
    /// the place; `Io`.
    pub fn records(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        self.unpruned(from, durable(self.walk(from)))
    }

    /// The durable records from `from` to `last`. Nothing behind the last one is looked at: it may
    /// be damaged.
    ///
    /// # Errors
    /// As [`LogReader::records`], for what is between the two.
    pub fn records_to(
        &self,
        from: u64,
        last: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        let count = last.saturating_add(1).saturating_sub(from);
        self.records(from).take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Passes over the durable records from `from` to `last`, and shows each where it was read.
    ///
    /// # Errors
    /// As [`LogReader::records_to`], and the first one of `look`.
    pub fn pass_records<E: From<Error>>(
        &self,
        from: u64,
        last: u64,
        mut look: impl FnMut(LoggedRecord<&[u8]>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        self.expect_unpruned(from)?;
        let mut walk = self.walk(from);
        let mut next = from.max(1);
        while next <= last
            && let Some(item) = walk.pass()
        {
            match item? {
                Item::Derived(_) => {}
                Item::Record(_, Proof::Unproven) | Item::OpenEnd { .. } => break,
                Item::Damage(damage) => return Err(damage.into_error().into()),
                Item::Record(record, _) => {
                    next = record.seq.saturating_add(1);
                    look(record)?;
                }
            }
        }
        Ok(())
    }

    /// The records, or why there are none: the first ones were pruned.
    fn unpruned<'a>(
        &self,
        from: u64,
        records: impl Iterator<Item = Result<LoggedRecord>> + 'a,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + 'a {
        let refusal = self.expect_unpruned(from).err();
        let is_refused = refusal.is_some();
        refusal.map(Err).into_iter().chain(records.take_while(move |_| !is_refused))
    }

    /// Everything up to record `from`, newest first: the items of [`LogReader::walk`] in the
    /// opposite order. Of a damaged log, which intact records are called
    /// [`Proof::BehindDamage`] may differ.
    #[must_use]
    pub fn walk_back(&self, from: u64) -> WalkBack<'_> {
        WalkBack::new(self, from)
    }

    /// The durable records from `from` back to the first that the log has.
    ///
    /// # Errors
    /// `Corrupt` at the first damage, naming the place; `Io`.
    pub fn records_back(&self, from: u64) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        let is_durable = |item: &Result<Item>| {
            !matches!(item, Ok(Item::Record(_, Proof::Unproven) | Item::OpenEnd { .. }))
        };
        durable(self.walk_back(from).filter(is_durable))
    }

    /// The records of a kind from record `from` on, and every damage that may have held one. In
    /// sealed segments only those records are read.
    #[must_use]
    pub fn walk_of_kind(&self, kind: u16, from: u64) -> Selection<'_> {
        Selection::new(self, Wanted::Kind(kind), from)
    }

    /// The records of a stream from record `from` on, and every damage that may have held one. In
    /// segments that were sealed with the same rule only those records are read.
    #[must_use]
    pub fn walk_of_stream(&self, stream: u64, streams: StreamOf, from: u64) -> Selection<'_> {
        Selection::new(self, Wanted::Stream(stream, streams), from)
    }

    /// The durable records of a kind from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// have held one; `Io`.
    pub fn records_of_kind(
        &self,
        kind: u16,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        self.unpruned(from, durable(self.walk_of_kind(kind, from)))
    }

    /// The durable records of a stream from record `from` on.
    ///
    /// # Errors
    /// `Pruned` if `from` is below [`LogReader::first_seq`]; `Corrupt` at the first damage that may
    /// have held one; `Io`.
    pub fn records_of_stream(
        &self,
        stream: u64,
        streams: StreamOf,
        from: u64,
    ) -> impl Iterator<Item = Result<LoggedRecord>> + '_ {
        self.unpruned(from, durable(self.walk_of_stream(stream, streams, from)))
    }

    /// One durable record; `None` if there is none of that number yet. Where its segment has no
    /// index, the segment is walked over once for all later calls of this reader.
    ///
    /// # Errors
    /// `Pruned` if it is not in the log any more; `Corrupt` if it is damaged or missing; `Io`.
    pub fn record(&self, seq: u64) -> Result<Option<LoggedRecord>> {
        self.expect_unpruned(seq)?;
        for item in Walk::with_places(self, seq) {
            match item? {
                Item::Record(record, Proof::Proven | Proof::BehindDamage) => {
                    return Ok(Some(record).filter(|record| record.seq == seq));
                }
                Item::Damage(damage) if (damage.first_seq..=damage.last_seq).contains(&seq) => {
                    return Err(damage.into_error());
                }
                Item::Record(..) | Item::OpenEnd { .. } => return Ok(None),
                Item::Damage(_) | Item::Derived(_) => {}
            }
        }
        Ok(None)
    }

    /// Wait for records as they become durable, from record `from` on, while a writer, of this
    /// process or another one, goes on.
    #[must_use]
    pub fn follow(&self, from: u64) -> Follow {
        Follow::new(self, from)
    }
}

/// The durable records among some items, up to the first damage.
fn durable<'a>(
    mut items: impl Iterator<Item = Result<Item>> + 'a,
) -> impl Iterator<Item = Result<LoggedRecord>> + 'a {
    let mut is_over = false;
    std::iter::from_fn(move || {
        while !is_over {
            let item = match items.next()? {
                Ok(Item::Record(_, Proof::Unproven) | Item::OpenEnd { .. }) => None,
                Ok(Item::Derived(_)) => continue,
                Ok(Item::Record(record, _)) => Some(Ok(record)),
                Ok(Item::Damage(damage)) => Some(Err(damage.into_error())),
                Err(error) => Some(Err(error)),
            };
            is_over = !matches!(item, Some(Ok(_)));
            return item;
        }
        None
    })
}
