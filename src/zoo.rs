//! The bug zoo: bugs that cost other engines data, seeded on purpose, to see that the tests find
//! each of them.
//!
//! It exists only in a build with `--cfg bug_zoo`. There, one bug at most is let loose, named by
//! the environment variable [`CHOICE`], so that processes which a test starts have it too. In any
//! other build the places that are marked `bug!` are empty.
//!
//! Invariant: each bug is let loose in one place (or in two that undo each other), and each breaks
//! a promise. A bug that no test finds is a gap in the tests: close the gap, keep the bug.
//!
//! Left out on purpose: who finds them (`tests/cli/zoo.rs`).

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the bug which is let loose.
pub const CHOICE: &str = "PLAN_LEDGER_BUG";

macro_rules! bugs {
    ($($name:ident, $hazard:literal, $does:literal;)+) => {
        /// A bug that can be let loose.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bug {
            $(#[doc = $does] $name,)+
        }

        impl Bug {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Its name.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The hazards that it stands for: H1 to H66 are durability bugs that happened
            /// elsewhere, P those of plans whose promise it breaks, S those of serving others.
            #[must_use]
            pub fn hazard(self) -> &'static str {
                match self { $(Self::$name => $hazard,)+ }
            }

            /// What it does.
            #[must_use]
            pub fn does(self) -> &'static str {
                match self { $(Self::$name => $does,)+ }
            }
        }
    };
}

bugs! {
    // Names and syncs.
    SegmentNameUnsynced, "H19", "a new segment is used before its folder was synced";
    LedgerNameUnsynced, "H20", "a new ledger is used before the folder that holds it was synced";
    SegmentUnsynced, "H21", "a new segment gets its name before it was synced";
    SegmentSparse, "H35 H45", "a segment is given its length, and no zeros are written";
    AckBeforeSync, "H41", "a commit writes HEAD and acknowledges without a sync";
    HeadBeforeSync, "H46", "HEAD is written before the records that it covers are synced";
    HeadUnsynced, "H38", "HEAD is written and never synced";
    HeadHasOneSlot, "H54", "HEAD is overwritten in place: always the same slot";
    PreparedTwice, "H26", "a segment is made ahead while the last such one takes its place";
    SealedBeforeHead, "H56", "a segment is sealed before HEAD was synced behind it";
    SealedBeforeSync, "H27 H56", "a segment has the length of a sealed one before its footer";
    // Failed writes and syncs.
    SyncRetried, "H33", "a failed sync is tried again, and the second answer believed";
    RegionReused, "H35 H37", "what a failed write left is overwritten in place";
    PoisonForgotten, "H33 H34", "after a failed write the log goes on as if nothing had happened";
    WokenBeforeDurable, "H41 H58", "whoever waits is woken when the bytes are written";
    OwnershipUnchecked, "H26 H61", "a lock that is not the one that was taken is good enough";
    AnotherLedgerRead, "H26", "a handle reads whatever ledger is where its own one was";
    TakeoverUnseen, "H26 H61", "HEAD vouches for what was synced without a look who may write now";
    OlderHeadAccepted, "H61", "a copy that is put over the files of a writer stops nobody";
    EpochUnchecked, "H61", "a later writer's epoch in HEAD stops nobody";
    // Turns at the disk.
    AckCoversNext, "H41 H58", "who was encoded while a group was synced is answered with it";
    TurnNotHandedOn, "H58", "at the end of a turn nobody is sent to the disk for the next group";
    PoisonUntold, "H34", "who waits for a turn that failed is not woken";
    // The end of the log.
    CacheAdopted, "H38", "records that only the page cache may hold are adopted where they are";
    TornTailReused, "H2 H37", "appending goes on over a torn tail, in place";
    TornTailCut, "H50", "recovery truncates what a crash left";
    DamageIsTornTail, "H1", "damage to acknowledged records is fenced off as a torn tail";
    ZeroIsEnd, "H10", "zeros are the end of the log, whatever HEAD and later records say";
    WitnessIgnored, "H1 H46", "HEAD and later records are no witnesses of what was acknowledged";
    NewestMissingIgnored, "H22", "HEAD may name a segment that is not there";
    ReadErrorIsEnd, "H48 H66", "a sector that cannot be read is the end of the log";
    RulesUnchecked, "H1", "an opening takes over whatever has the right sums and links";
    BatchLeftIgnored, "H16", "a batch of which the end is missing is taken for whole";
    SurvivorsDropped, "H49", "recovery keeps what HEAD covers, and drops whole records behind it";
    FenceUnsynced, "H49", "the segment that a recovery makes is not synced";
    InflightNotCounted, "H2", "every record claims that all before it had been synced";
    TimeGoesBack, "H65", "a record has the clock's time, though the one before has a later one";
    // Frames, segments, indexes.
    CrcWithoutPlace, "H24 H47", "checksums are not seeded with segment and offset";
    LengthOutsideCrc, "H6 H7", "the header's checksum leaves out the length";
    ChainUnchecked, "H18 H47", "a record's number and chain are not compared with the one before";
    MissingSegmentSkipped, "H23", "the segments need not be a row without gaps";
    StaleSegmentAccepted, "H24", "a segment need not name the one before by its uid";
    CutSegmentAccepted, "H23", "an older segment may end before its logical end";
    IndexTrusted, "H55", "a place that the index names is not looked at";
    PiecesTrusted, "H55", "pieces of a segment that were verified apart need not continue each other";
    PlacesOfAnother, "H55", "places of one segment are kept for all of them";
    FollowedBeyondHead, "H58", "a follower returns records that HEAD does not cover yet";
    KeysForgotten, "H51", "the keys of batches are not read when a log is opened";
    // Snapshots, prunes, blobs.
    SnapshotInPlace, "H54", "a snapshot is written under its own name";
    SnapshotUnsynced, "H52", "a snapshot gets its name before it was synced";
    SnapshotNameUnsynced, "H52", "the folder of a new snapshot is not synced";
    SnapshotUnchained, "H53", "a snapshot need not fit the chain of the log";
    SnapshotStateTrusted, "H53", "a snapshot's state need not have the hash that its header says";
    SnapshotUncompared, "H53", "what snapshots and notes say of the state is not held against the fold";
    RunBytesTrusted, "H53", "a run in a snapshot need not have the hash that the state has of it";
    GlanceTrusted, "H53", "what a snapshot's list shows of a run need not be what the run holds";
    RunFaultIgnored, "H53", "a run that cannot be unpacked is judged as one that is not there";
    RunHashKept, "H53", "a run that was changed is still kept, and hashed, as it was unpacked";
    CollectedByAnyone, "H61", "outputs are collected by a handle that may not write any more";
    BaseThinnedOut, "H53", "a snapshot that others are based on is removed for being large";
    PruneLeavesBased, "H53", "a prune leaves snapshots whose base it removes";
    BaseTrusted, "H53", "a base need not be the one that the snapshot says";
    PruneBeforeNote, "H52", "segments are removed before the note of it is durable";
    PruneUnsynced, "H25", "a removal is not synced before the next one";
    PruneBackwards, "H23", "segments are removed in the wrong order";
    PruneWithoutFooting, "H52", "a prune goes on though an anchor is missing or damaged";
    BlobUnsynced, "H52", "a blob gets its name, and a record names it, before it was synced";
    BlobNameUnsynced, "H19", "the folders of a blob are not synced";
    BlobAdoptedUnsynced, "H38", "a blob that is there already is named without a sync";
    BlobTrusted, "H66", "the hash of a blob is not compared";
    BlobLossForgiven, "H66", "an output that is missing is taken for one that was pruned";
    // Plans.
    ReleaseUnrecorded, "P claim", "a claim is given back in memory, and not in the log";
    ExpiryUnrecorded, "P lease", "a lease runs out in memory, and not in the log";
    RenewalForgotten, "P lease", "a sign of life does not prolong the lease";
    ClaimUnchecked, "P claim", "a step that somebody holds is dealt again to who asks for it";
    TokenUnchecked, "P receipt", "a late receipt counts for whoever has the step now";
    WorkerJudgesItself, "P guard", "a worker may judge its own work";
    HarmfulRedealt, "P doubt", "a lost step that must not be done twice is dealt again";
    KeyReused, "P key", "all attempts of a step have the same idempotency key";
    KeyPerAttempt, "P key", "each attempt has another key though the step says: with key";
    VersionUnchecked, "P variable", "a variable is set whatever version was expected";
    BudgetUnreserved, "P budget", "a dispatch sets nothing aside";
    CapPassedByOne, "P cap", "one more is in flight than a cap allows";
    BarrierReleasedEarly, "P barrier", "a barrier opens one member too early";
    // Work from outside, and whoever holds the ledger for others.
    AnsweredEarly, "S answer", "an act is answered before its records are durable";
    RefusedEarly, "S answer", "an act is refused by a state that may not be durable";
    LostActDoneAgain, "S once", "an act whose answer was lost is done again without its key";
    RefusedReceiptDeals, "S receipt", "who reports too late is dealt another step all the same";
    LeaseNotKept, "S lease", "a worker gives no sign of life while it works";
    CheckForgotten, "S guard", "a check that a crash left is nobody's";
    EndedCheckPasses, "S guard", "a check that was ended passes";
    PrunedBeyond, "S prune", "the holder prunes as far as it may, whatever it was asked";
    // The canary: it does nothing, so nothing may find it.
    Harmless, "none", "nothing at all";
}

/// The bug that is let loose in this process, if one is.
///
/// # Panics
/// If the variable names none: a misspelt bug would seem to survive everything.
#[must_use]
pub fn loose() -> Option<Bug> {
    static LOOSE: OnceLock<Option<Bug>> = OnceLock::new();
    *LOOSE.get_or_init(|| {
        let name = std::env::var(CHOICE).ok()?;
        let found = Bug::ALL.iter().copied().find(|bug| bug.name() == name);
        tell_when_found();
        Some(found.unwrap_or_else(|| panic!("{CHOICE}: there is no bug named {name}")))
    })
}

static ACTED: AtomicU64 = AtomicU64::new(0);

/// The environment variable that names a file which gets a byte from each process that came upon the
/// bug: a test that fails without it has failed for another reason.
pub const TOLD: &str = "PLAN_LEDGER_BUG_TOLD";

fn tell_first() {
    let Ok(path) = std::env::var(TOLD) else { return };
    let told = std::fs::OpenOptions::new().create(true).append(true).open(path);
    told.and_then(|mut told| told.write_all(b"x")).expect("the file can be written to");
}

/// Whoever panics says how often the bug had been come upon: it is what it took to be found.
fn tell_when_found() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let acted = ACTED.load(Ordering::Relaxed);
        // Nobody is left to tell if that fails.
        let _ = writeln!(io::stderr(), "zoo: acted {acted}");
        before(panic);
    }));
}

/// Whether that bug is let loose.
#[must_use]
pub fn is_loose(bug: Bug) -> bool {
    let is_loose = loose() == Some(bug);
    if is_loose && ACTED.fetch_add(1, Ordering::Relaxed) == 0 {
        tell_first();
    }
    is_loose
}
