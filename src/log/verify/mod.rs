//! Verifying a whole log: every header, frame and link, both slots of HEAD, and the log's end.
//!
//! The log is cut into stretches, most of them one segment long, and each is walked on its own
//! from what its header says came before. Where one stretch ends the walk compares what it found
//! with the header of the segment that follows, so nothing is left unproved between two of them.
//! Several threads share a stretch in pieces, too.
//!
//! Invariants:
//! - Nothing is written and no lock is taken. A writer at work is no damage: what looks like it
//!   must be met again by a second look.
//! - The findings are the same for any number of jobs, and come in the order of the log.
//! - Memory: for each job one window and one record, whatever the size of the log, and at most
//!   [`FINDINGS_MAX`] findings; more of them are counted.
//!
//! Left out on purpose: what records mean (the caller may look at each), and snapshots.

mod expect;
mod finding;
mod head;
mod pieces;
mod stretch;
mod tail;

pub use expect::{Expectation, Expected};
pub use finding::{Class, Finding};

use std::cmp::Reverse;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::format::Chain;
use crate::storage::Storage;

use super::batch::Ack;
use super::crew::{Tally, Watch, share_out};
use super::judge::{is_written, judge};
use super::layout::Layout;
use super::reader::LogReader;
use super::recovery::Verdict;
use super::scan::Links;
use super::walk::LoggedRecord;
use stretch::{Stretch, Walked};

/// How many findings are kept; the rest is counted.
pub const FINDINGS_MAX: usize = 65_536;

/// What is called with each intact record, from any of the threads: what the log's user holds
/// against it, if anything.
pub type Examine<'a> = &'a (dyn Fn(&LoggedRecord<&[u8]>) -> Option<Error> + Sync);

/// How a log is verified.
#[derive(Clone, Copy)]
pub struct VerifyOptions<'a> {
    /// Whether chain values are computed again.
    pub links: Links,
    /// How many threads.
    pub jobs: NonZeroUsize,
    /// A chain value that must be in the log.
    pub expected: Option<Expected>,
    /// Who is told how far it is.
    pub watch: Watch<'a>,
    /// Who looks at each record.
    pub examine: Examine<'a>,
}

impl VerifyOptions<'_> {
    /// Every link computed again in one thread; nobody is asked anything.
    pub const PLAIN: VerifyOptions<'static> = VerifyOptions {
        links: Links::Computed,
        jobs: NonZeroUsize::MIN,
        expected: None,
        watch: &|_, _| ControlFlow::Continue(()),
        examine: &|_| None,
    };
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Files that are named like segments.
    pub segments: u64,
    /// Intact records, the unproven ones among them.
    pub records: u64,
    /// Intact records beyond what HEAD says is durable.
    pub unproven: u64,
    /// Size of their frames together.
    pub frame_bytes: u64,
}

impl Counts {
    fn add(&mut self, other: Self) {
        self.segments += other.segments;
        self.records += other.records;
        self.unproven += other.unproven;
        self.frame_bytes += other.frame_bytes;
    }
}

/// Whether a verification came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// It did.
    Complete,
    /// It was asked to stop: what it says is true of a part.
    Stopped,
}

/// What verifying a log found.
#[derive(Debug)]
pub struct Verification {
    /// Everything that is not as it should be, in the order of the log.
    pub findings: Vec<Finding>,
    /// How many more there were.
    pub omitted: u64,
    /// What was looked at.
    pub counts: Counts,
    /// The last durable record that was read.
    pub last: Option<Ack>,
    /// With which verdict it would be opened for writing now, or why it would be refused.
    pub opening: Result<Verdict>,
    /// What became of the expected chain value.
    pub expectation: Option<Expectation>,
    /// Whether all of it was looked at.
    pub completion: Completion,
}

impl Verification {
    /// How many findings there are of a class, as far as they were kept.
    #[must_use]
    pub fn count(&self, class: Class) -> usize {
        self.findings.iter().filter(|finding| finding.class == class).count()
    }

    /// Whether anything is damaged, or cannot be told from damage.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.count(Class::Damage) > 0
            || self.count(Class::Derived) > 0
            || self.omitted > 0
            || self.opening.as_ref().is_err_and(Error::is_damage)
    }

    /// Add findings of the caller's own.
    pub fn keep(&mut self, findings: impl IntoIterator<Item = Finding>) {
        for finding in findings {
            if self.findings.len() < FINDINGS_MAX {
                self.findings.push(finding);
            } else {
                self.omitted += 1;
            }
        }
    }
}

/// Verify the log in a folder.
///
/// # Errors
/// `NotALedger`, and `Io` where not even names and headers can be read. Damage is no error.
pub fn verify(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: VerifyOptions<'_>,
) -> Result<Verification> {
    let mut reader = LogReader::open(storage, dir)?;
    reader.links = options.links;
    let stretches = stretch::cut(&reader);
    let shared = Shared::new(&reader, &stretches, options);
    let walked = pieces::walk(&shared, &stretches);
    let is_live = is_written(&**storage, &Layout::new(dir), reader.head_view())?;
    let opening = match judge(&**storage, dir) {
        Err(error) if error.kind() == ErrorKind::Io => return Err(error),
        opening => opening,
    };
    let mut all = Verification {
        findings: Vec::new(),
        omitted: 0,
        counts: Counts::default(),
        last: None,
        opening,
        expectation: None,
        completion: if shared.tally.is_stopped() {
            Completion::Stopped
        } else {
            Completion::Complete
        },
    };
    all.keep(head::findings(&**storage, dir, &reader)?);
    let mut seen = expect::Seen::default();
    let mut previous: Option<&Walked> = None;
    for (stretch, walked) in stretches.iter().zip(&walked) {
        let Some(walked) = walked else { continue };
        all.counts.add(walked.counts);
        all.last = walked.last.or(all.last);
        seen.add(walked.seen);
        // No second look takes this back: what a stretch began with stays, and what another ended
        // with only grows later.
        all.keep(previous.and_then(|previous| stretch::junction(&reader, previous, walked)));
        let mut findings = walked.findings.clone();
        all.omitted += walked.omitted;
        if is_live && findings.iter().any(|finding| finding.class == Class::Damage) {
            let again = second_look(storage, dir, options, stretch)?;
            findings.retain(|finding| finding.class != Class::Damage || again.contains(finding));
        }
        all.keep(findings);
        previous = Some(walked);
    }
    if all.completion == Completion::Complete {
        let last = walked.last().and_then(Option::as_ref);
        all.keep(tail::finding(&reader, last)?);
    }
    all.keep(head::strangers(&reader));
    all.expectation = options.expected.and_then(|expected| {
        let chain = reader.chain_before().unwrap_or(Chain::GENESIS);
        let origin = Ack { seq: reader.first_seq().saturating_sub(1), chain };
        let outcome = expected.judge(seen, origin, all.last);
        // Not to have met it yet says nothing.
        let is_open =
            all.completion == Completion::Stopped && matches!(outcome, Expectation::Missing { .. });
        (!is_open).then_some(outcome)
    });
    Ok(all)
}

/// What a new view says of a stretch: a writer may have been at it while it was read.
fn second_look(
    storage: &Arc<dyn Storage>,
    dir: &Path,
    options: VerifyOptions<'_>,
    stretch: &Stretch,
) -> Result<Vec<Finding>> {
    let mut reader = LogReader::open(storage, dir)?;
    reader.links = options.links;
    // It was counted already, and a look at one part is not worth stopping.
    let options = VerifyOptions { watch: VerifyOptions::PLAIN.watch, ..options };
    let whole = Shared::new(&reader, std::slice::from_ref(stretch), options);
    Ok(stretch::walk(&whole, stretch).findings)
}

/// What the threads share.
struct Shared<'a> {
    reader: &'a LogReader,
    options: VerifyOptions<'a>,
    tally: Tally<'a>,
}

impl<'a> Shared<'a> {
    fn new(reader: &'a LogReader, stretches: &[Stretch], options: VerifyOptions<'a>) -> Self {
        Self { reader, options, tally: Tally::new(options.watch, length_of(stretches)) }
    }

    /// What each stretch came to; `None` for those that nobody came to.
    fn run(&self, stretches: &[Stretch]) -> Vec<Option<Walked>> {
        let jobs = self.options.jobs;
        let mut order: Vec<(usize, &Stretch)> = stretches.iter().enumerate().collect();
        if jobs > NonZeroUsize::MIN {
            // The longest first: whoever takes the last one should not keep the others waiting.
            order.sort_by_key(|(_, stretch)| Reverse(stretch.length));
        }
        let mut walked = share_out(jobs, order, |(place, stretch)| {
            (place, (!self.tally.is_stopped()).then(|| stretch::walk(self, stretch)))
        });
        walked.sort_by_key(|(place, _)| *place);
        walked.into_iter().map(|(_, walked)| walked).collect()
    }
}

fn length_of(stretches: &[Stretch]) -> u64 {
    stretches.iter().map(|stretch| stretch.length).sum()
}

/// The last durable record: what to keep elsewhere, so that a later verification can be held to
/// it.
///
/// # Errors
/// `NotALedger`; `Ambiguous` where HEAD is missing or damaged; `Corrupt` where the record that
/// it names is; `Io`.
pub fn root(storage: &Arc<dyn Storage>, dir: &Path) -> Result<Ack> {
    let reader = LogReader::open(storage, dir)?;
    let Some(head) = reader.head().filter(|_| reader.has_witness()) else {
        let what = "HEAD is missing or damaged, or names a segment that is not here, so it cannot \
                    be told which record is the last durable one; `ledger verify` says more";
        return Err(Error::new(ErrorKind::Ambiguous, what).at_path(&dir.join("HEAD")));
    };
    let mut last = Ack { seq: 0, chain: Chain::GENESIS };
    for record in reader.records(head.durable_seq.max(1)) {
        let record = record?;
        last = Ack { seq: record.seq, chain: record.chain };
    }
    let is_there =
        last.seq >= head.durable_seq && (last.seq > head.durable_seq || last.chain == head.chain);
    if !is_there {
        let what = "HEAD names another record than the one that is there";
        return Err(Error::new(ErrorKind::Corrupt, what)
            .at_path(&dir.join("HEAD"))
            .at_seq(head.durable_seq));
    }
    Ok(last)
}
