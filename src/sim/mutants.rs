//! Mutants: seeded bugs that test the tests.
//!
//! Each mutant is one line marked `mutant!` in the code under test, and violates one guarantee.
//! Most reproduce a bug that lost data in another storage engine. The lines are empty in every
//! build except one with `--cfg mutants`; there, the environment variable [`CHOICE`] enables at
//! most one of them, which the processes that a test starts inherit. `tests/cli/mutants.rs`
//! runs the tests against each.
//!
//! Invariant: a mutant acts in one place of the code, or in two that compensate each other. A
//! mutant that survives is a gap in the tests: add the missing test, and keep the mutant.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The environment variable that names the mutant to enable.
pub const CHOICE: &str = "PLAN_LEDGER_MUTANT";

/// The environment variable that names a file. Each process appends a byte to it when it first
/// reaches the enabled mutant. A test that fails while the file is missing fails for another
/// reason.
pub const REACHED: &str = "PLAN_LEDGER_MUTANT_REACHED";

macro_rules! mutants {
    ($($name:ident, $hazard:literal, $effect:literal;)+) => {
        /// A seeded bug.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Mutant {
            $(#[doc = $effect] $name,)+
        }

        impl Mutant {
            /// Every mutant.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name that enables it.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }

            /// The hazards that it represents: H1 to H66 are durability bugs of other engines
            /// (`tests/hazards.md`), P is a guarantee about plans, S a guarantee of the server.
            #[must_use]
            pub fn hazard(self) -> &'static str {
                match self { $(Self::$name => $hazard,)+ }
            }

            /// The effect of the bug.
            #[must_use]
            pub fn effect(self) -> &'static str {
                match self { $(Self::$name => $effect,)+ }
            }
        }
    };
}

mutants! {
    // Erasure.
    ErasureForgotten, "H erasure", "an opening forgets an erasure whose note is not known to be durable";
    LogTailKept, "H erasure", "the error output of a worker cannot be erased with its receipt";
    DetachedValueUnchecked, "H erasure", "a detached value is read without comparing it with its digest";
    EvidenceKeepsValue, "H erasure", "the evidence of an expression keeps a value that is erased";
    EraseLeavesCopies, "H erasure", "values that came with an erased one are kept";
    ErasedSegmentUnsynced, "H12", "a segment without the erased values replaces the old one unsynced";
    SnapshotSurvivesErase, "H erasure", "an erasure keeps snapshots that hold the value";
    DeadBytesSurviveErase, "H erasure", "an erasure keeps copies of the value after the logical end";
    ErasedWithoutNoteAccepted, "H erasure", "verify accepts an erased value that no note names";
    // The keeper and the store.
    AckBeforeKept, "H store", "a commit is acknowledged although the store does not have it";
    HeadBeforeKept, "H store", "HEAD covers a group before the store has it";
    KeptBeforeSync, "H store", "a group goes to the store before it is synced in the folder";
    BufferedNotKept, "H store", "records that were written without a sync are missing in the store";
    AcknowledgedRecordsDropped, "H store", "a diverged folder loses records that it acknowledged";
    CopyUnsynced, "H store", "records that a folder copies from the store are not synced before HEAD";
    DeadBytesFollowCopy, "H store", "bytes of a dropped record stay after the end of the log";
    BlobNotKept, "H store", "a record refers to a blob that the store does not have";
    BlobsOfTakeoverMissing, "H store", "a folder that takes over lacks the blobs of the last records that it copied";
    ListedFromStart, "H store", "each listing of a store begins with the first object";
    FloorReadAgain, "H store", "a folder that is up to date reads the segment objects from the first one";
    PartNotUploaded, "H store", "slots are not covered before their segment is complete";
    PartEndUnchecked, "H store", "a segment object that ends inside a slot hides the rest of the slot";
    BindingIgnored, "H store", "a ledger that is bound to a store is written without it";
    BindingUnsynced, "H store", "a folder writes to a store before its binding is durable";
    BoundIgnored, "H store", "a commit is acknowledged while an older one is unshipped beyond the bound";
    FencedShipperIgnored, "H store", "commits are acknowledged after another process took over";
    LocalAckForgotten, "H store", "records that a folder acknowledged alone count as never acknowledged";
    BlobShippedLate, "H store", "a slot is shipped before the blobs to which it refers";
    UnkeptSegmentPruned, "H store", "a prune removes records that the store does not have yet";
    SegmentUploadedEarly, "H store", "a segment is uploaded before the store has its records";
    SnapshotUploadedEarly, "H store", "a snapshot is uploaded before the store has its note and its records";
    StoredSnapshotUnchecked, "H store", "a restored folder takes in a snapshot of other records";
    NotedAnchorCollected, "H store", "a collector deletes the snapshots from which a pruned log is to start";
    CollectableAnchorTrusted, "H store", "a prune of the store deletes records whose snapshots a late collector deletes";
    OpeningSlotCollected, "H store", "an opening slot is collected, and a writer that was replaced continues";
    YoungSlotCollected, "H store", "a slot is collected before the store says that it is 48 hours old";
    NewestSegmentPruned, "H store", "a prune of the store deletes the newest segment object";
    EndWithoutListing, "H store", "a reader takes a collected slot for the end of the log";
    EmptySegmentRotated, "H store", "a batch that is larger than the first segment leaves that without a record";
    EmptySegmentIsTheEnd, "H store", "a process that ships takes a segment without a record for the end of the log";
    PrunedSegmentSkipped, "H store", "after a prune before the upload of its segments, no later one is uploaded";
    LaterStartIgnored, "H store", "a folder that ends before the log in the store begins counts as diverged";
    MissingAnchorIgnored, "H store", "a store is restored without the snapshots from which its pruned log starts";
    RejoinForgotten, "H store", "the log does not say which records were lost when a folder joined the store again";
    CopiedOpeningUnchecked, "H store", "a folder that moves to another store takes an opening slot under a collected name for written";
    CopiedWriterForgotten, "H store", "after a move to another store, the log names a wrong writer before the first one there";
    ImportedNoteInside, "H store", "an import puts a writer note inside a segment, where no store accepts it";
    PrunedFolderBound, "H store", "a pruned folder is bound to a store that lacks its first records";
    UncoveredSlotsTrusted, "H store", "an owner does not see that a slot before the end of the log is lost";
    SegmentGapIgnored, "H store", "an owner does not see that a segment object in the middle is lost";
    SegmentLengthUnchecked, "H store", "an owner does not see that a first part is cut";
    LostOpeningSlotIgnored, "H store", "a process that was replaced continues under the name of an opening slot that was lost";
    LostLedgerObjectIgnored, "H store", "an owner does not see that LEDGER.json is lost, without which no ledger is found";
    LostBlobIgnored, "H store", "an owner does not see that a blob is lost";
    StoreNoteIgnored, "H store", "a standby that takes over uploads again what was deleted from the store on request";
    EmptiedStoreFilled, "H store", "a bound folder fills a store that no longer has a record of the ledger";
    LostEndIgnored, "H store", "a log that ends with a sealed segment counts as whole";
    ForeignPrefixRepaired, "H store", "an owner repairs a prefix that now belongs to another ledger";
    IdleSideCarRepairs, "H store", "a side-car repairs a store that another process continued";
    AnchorsOfLaterNoteLate, "H store", "a store that was pruned does not get the anchors of the next note at once";
    UnnamedBlobMissed, "H store", "an owner reports a blob that no record names as lost";
    ScrubbedDamageIgnored, "H store", "an owner reads a damaged object, and does not report it";
    FollowedWithoutBound, "H store", "a standby follows an owner that writes without end, and sees nothing else";
    LostRaceIsUnclear, "H store", "a create that another process won counts as an unclear answer";
    // Directory entries and syncs.
    SegmentDirEntryUnsynced, "H19", "a new segment is used before its folder is synced";
    LedgerDirEntryUnsynced, "H20", "a new ledger is used before its parent folder is synced";
    SegmentUnsynced, "H21", "a new segment is renamed into place before it is synced";
    SegmentSparse, "H35 H45", "a segment is preallocated by its length alone, without zeros";
    AckBeforeSync, "H41", "a commit writes HEAD and acknowledges without a sync";
    HeadBeforeSync, "H46", "HEAD is written before the records that it covers are synced";
    HeadUnsynced, "H38", "HEAD is written and never synced";
    HeadSlotStaleAtRest, "H54", "only one slot of HEAD is written at open and at a clean close";
    LostHeadSlotIgnored, "H54", "the older slot of HEAD decides the end of the log alone";
    FenceNeedsFullSegment, "H50", "recovery on a full disk needs room for a segment of the usual size";
    TornByFewerZeros, "H10", "a frame whose last 7 bytes are zero is taken for a torn write";
    TornByLaterZeros, "H10", "zeros after the first 128 bytes of a damaged frame make it a torn write";
    HeadFirstCopyOnly, "H54", "a slot of HEAD is read from its first sector only";
    HeadRestoredInPlace, "H54", "the only copies of HEAD's newest record are overwritten before the other slot has it";
    HeadSingleSlot, "H54", "HEAD is overwritten in place: always in the same slot";
    SegmentPreallocatedTwice, "H26", "a segment is preallocated while the previous one is taken into use";
    SealBeforeHeadSync, "H56", "a segment is sealed before HEAD is synced";
    SealBeforeFooterSync, "H27 H56", "a segment gets its sealed length before its footer";
    // Failed writes and syncs.
    FailedSyncRetried, "H33", "a failed sync is retried, and the second result believed";
    FailedRegionOverwritten, "H35 H37", "the region of a failed write is overwritten in place";
    PoisonIgnored, "H33 H34", "the log continues after a failed write";
    WaitersWokenBeforeSync, "H41 H58", "waiters are woken when the bytes are written";
    LockIdentityUnchecked, "H26 H61", "a lock file that replaced the locked one is accepted";
    UnsafeLockAccepted, "H61", "a ledger is opened for writing where its lock can be taken twice";
    LedgerUidUnchecked, "H26", "a reader accepts another ledger at the path of its own";
    TakeoverUnchecked, "H26 H61", "HEAD is written without checking for a new lock holder";
    OlderHeadAccepted, "H61", "a writer continues after an older copy replaced its files";
    EpochUnchecked, "H61", "a writer continues after a later writer's epoch appeared in HEAD";
    // Group commit.
    AckCoversUnsyncedBatch, "H41 H58", "an ack covers records encoded while the group was synced";
    NextLeaderNotElected, "H58", "the end of a flush wakes no leader for the next group";
    WaitersNotWokenOnPoison, "H34", "the waiters of a failed flush are not woken";
    // The end of the log.
    UnsyncedTailAdopted, "H38", "records that may exist only in the page cache are adopted in place";
    TornTailOverwritten, "H2 H37", "appends overwrite a torn tail in place";
    TornTailTruncated, "H50", "recovery truncates a torn tail";
    DamageFencedAsTornTail, "H1", "damage to acknowledged records is fenced off as a torn tail";
    ZerosEndLog, "H10", "zeros end the log, even if HEAD or later records prove otherwise";
    DurabilityEvidenceIgnored, "H1 H46", "HEAD and later records do not prove what was acknowledged";
    MissingNewestSegmentIgnored, "H22", "HEAD may name a segment that does not exist";
    ReadErrorEndsLog, "H48 H66", "a read error ends the log";
    UnreadableSectorEndsRead, "H48 H66", "an unreadable sector makes the whole read fail";
    UnreadableBytesAreZeros, "H48 H66", "an unreadable sector counts as zeros";
    LostHeaderLosesRecords, "H48 H66", "a header that cannot be read costs all records of its segment";
    MappedPageUnproven, "H66", "a page of a map is used before it is known to be readable";
    AdoptedRecordsUnchecked, "H1", "recovery adopts any record with a valid checksum and chain";
    PartialBatchAccepted, "H16", "a batch without its end is accepted as complete";
    IntactTailDropped, "H49", "recovery drops intact records after the position in HEAD";
    FenceSegmentUnsynced, "H49", "the segment that recovery creates is not synced";
    InflightRecordsUncounted, "H2", "each record claims that all records before it were synced";
    TimestampsGoBackwards, "H65", "a record may have an earlier time than its predecessor";
    ElapsedTimeIgnored, "P time", "the ledger's time follows the wall clock instead of elapsed time";
    ElapsedTimeForgotten, "P time", "an opening takes the ledger's time from the wall clock, not from HEAD";
    BootIdIgnored, "P time", "readings of the boot clock are compared across boots";
    ClockJumpUnreported, "P time", "a difference between wall clock and ledger's time is not reported";
    // Frames, segments, indexes.
    CrcUnseeded, "H24 H47", "checksums are not seeded with segment and offset";
    LengthOutsideCrc, "H6 H7", "the header checksum does not cover the length";
    ChainUnchecked, "H18 H47", "sequence number and chain are not compared with the previous record";
    MissingSegmentSkipped, "H23", "a gap between segments is accepted";
    StaleSegmentAccepted, "H24", "a segment need not name its predecessor by uid";
    TruncatedSegmentAccepted, "H23", "an older segment may end before its logical end";
    IndexEntryUnchecked, "H55", "the frame at an index entry is not checked";
    RangeBoundaryUnchecked, "H55", "ranges verified in parallel need not join";
    OffsetCacheShared, "H55", "the cached offsets of one segment are used for all segments";
    FollowerReadsPastHead, "H58", "a follower returns records that HEAD does not cover";
    DamagedRecordEndsKeys, "H48 H66", "a record that cannot be read makes every request with a key fail";
    IdempotencyKeysNotLoaded, "H51", "opening a log does not load the keys of its batches";
    // Snapshots, prunes, blobs.
    SnapshotWrittenInPlace, "H54", "a snapshot is written under its final name";
    SnapshotUnsynced, "H52", "a snapshot is renamed into place before it is synced";
    SnapshotDirEntryUnsynced, "H52", "the folder of a new snapshot is not synced";
    FollowedStateUnchecked, "H53", "a state that was followed need not match the chain of the log";
    SnapshotChainUnchecked, "H53", "a snapshot need not match the chain of the log";
    SnapshotStateHashUnchecked, "H53", "a snapshot's state need not match the hash in its header";
    SnapshotNoteNotRequired, "H53", "a snapshot is used although no note in the log names it";
    SnapshotAheadIsDamage, "H53", "verify reports a snapshot ahead of HEAD as damage after a power loss";
    SnapshotNotComparedWithReplay, "H53", "verify does not compare snapshots with a replay";
    RunHashUnchecked, "H53", "a run in a snapshot need not match its hash";
    RunOverviewUnchecked, "H53", "the overview of a run in a snapshot need not match the run";
    RunDecodeErrorIgnored, "H53", "a run that cannot be decoded counts as absent";
    StaleRunHashKept, "H53", "a changed run keeps the bytes and hash that it was decoded from";
    StaleLeafHashKept, "H53", "a leaf of steps keeps its hash when a step in it changes";
    FencedWriterCollectsBlobs, "H61", "a writer that lost its lock collects blobs";
    BaseSnapshotRemoved, "H53", "retention removes a snapshot that others are based on";
    PruneOrphansDeltaSnapshots, "H53", "a prune keeps delta snapshots whose base it removes";
    BaseSnapshotUnchecked, "H53", "a base need not be the one that the snapshot names";
    PruneBeforeNote, "H52", "segments are removed before the retention note is durable";
    PruneRemovalUnsynced, "H25", "a removal is not synced before the next one";
    PrunedFileEndsVerify, "H23", "a verification fails because a prune removed a file that it was reading";
    PrunedFileEndsExport, "H23", "an export fails because a prune removed a file that it was reading";
    PrunedIndexEndsWalk, "H23", "a reader fails because a prune removed a segment that it had read";
    PruneOutOfOrder, "H23", "segments are removed in the wrong order";
    PruneWithoutAnchor, "H52", "a prune continues although an anchor is missing or damaged";
    BlobUnsynced, "H52", "a blob is renamed into place and recorded before it is synced";
    BlobDirEntryUnsynced, "H19", "the folders of a blob are not synced";
    ExistingBlobUnsynced, "H38", "a blob that exists already is recorded without a sync";
    BlobHashUnchecked, "H66", "the hash of a blob is not compared";
    MissingBlobTreatedAsPruned, "H66", "a missing blob is reported as pruned";
    // Plans.
    ReleaseNotLogged, "P claim", "a claim is released in memory but not in the log";
    LeaseExpiryNotLogged, "P lease", "a lease expires in memory but not in the log";
    LeaseRenewalIgnored, "P lease", "a renewal does not extend the lease";
    ClaimedStepDispatched, "P claim", "a claimed step is dispatched to a second worker";
    StaleTokenAccepted, "P receipt", "a late receipt counts for the current attempt";
    SelfReviewAccepted, "P guard", "a worker may review its own work";
    EventAfterLossIgnored, "P salvage", "an event after a recorded loss does not count if it does not fit the status of its step";
    UnrepeatableStepRepeated, "P outcome_unknown", "a new plan version has an accepted step done twice that must not be";
    NonIdempotentStepRedispatched, "P outcome_unknown", "a lost non-idempotent step is dispatched again";
    IdempotencyKeyPerStep, "P key", "all attempts of a step share one idempotency key";
    IdempotencyKeyPerAttempt, "P key", "a step that promises one key gets a new one per attempt";
    VariableVersionUnchecked, "P variable", "a variable is set without a check of the expected version";
    BudgetNotReserved, "P budget", "a dispatch reserves no budget";
    EvaluationBudgetIgnored, "P evaluation", "a commit evaluates all expressions, however long that takes";
    LabelsAroundTasksIgnored, "P import", "a label of a gate or a limit beside Markdown tasks is text without a notice";
    ReadingNotAsked, "P import", "of two readings of a plan file, the default is dispatched without a question";
    SelectedReadingForgotten, "P import", "a file is read again in another reading than the plan of its run";
    LabelsOfChecksIgnored, "P import", "a label of a gate or a limit in Markdown is text without a notice";
    ListReadAsObject, "P import", "a list in the place of a gate is read as the gate, by the order of its items";
    DeepSettingsUnread, "P import", "a check deep in the settings of a task is dropped without a notice";
    PartsOutvoteOpenBox, "P import", "a task whose box is open is done because its parts are ticked";
    EditedFileTicked, "P import", "ticks continue in a plan file whose text a person edits";
    ChangedFileMarked, "P import", "statuses are written into a file with another text than the plan's";
    FieldWordsIgnored, "P import", "a check or a limit under a name that no list has is kept as data";
    RecordFieldOutvotesPlan, "P plan", "a field that other tools have, too, makes a valid plan another tool's list";
    ApprovalOfVersionIgnored, "P guard", "a version that is to wait for approval becomes active at once";
    ApprovedCommandHidden, "P guard", "a person approves a plan without seeing one of its commands";
    UnapprovedCommandsRun, "P guard", "a judge runs commands that no person approved";
    RunnerChecksInSession, "P guard", "a runner that an agent started checks the agent's own work";
    StubContinuesRealRun, "P guard", "a drill accepts the steps of a run in which others work";
    StubJudgesOthers, "P guard", "a stub accepts what another worker reported";
    CheckedInAnyFolder, "P guard", "a judge runs commands in any folder that a claim names";
    PersonStepRouted, "P route", "a step of a person is dispatched to any worker";
    CapExceededByOne, "P cap", "one attempt more than the cap allows is in flight";
    MissingOutputAccepted, "P guard", "an attempt without a declared output is accepted";
    PlanTextTrusted, "P guard", "the text criteria of a plan hold without a judge";
    FailureExpressionIgnored, "P guard", "a failure rule decides although its expression does not hold";
    LostAttemptUncounted, "P guard", "a step is dispatched again however often its attempts are lost";
    RunEndsWithOpenRequest, "P replan", "a run ends although a new plan was requested";
    ForkLosesRequest, "P replan", "a fork drops the request for a new plan";
    ForkRepeatsOnce, "P guard", "a fork repeats a step that must not be done twice without a question";
    RequestedReplanHoldsNothing, "P replan", "a step is dispatched that a requested plan may change";
    RedoneStepKept, "P guard", "a replan from a step keeps the work of that step";
    BarrierReleasedEarly, "P barrier", "a barrier opens one member too early";
    // The server, the runner and external workers.
    AnswerBeforeDurable, "S answer", "a request is answered before its records are durable";
    RejectionBeforeDurable, "S answer", "a request is rejected by a state that may not be durable";
    KeyOfAnotherRequestAccepted, "S once", "a key that names another request is answered with that one's success";
    ClaimThatIsOverAnswered, "S once", "a claim that is over is answered again as if it held";
    CloseFailureAnswered, "S once", "a completed request is answered with the failure to close the ledger";
    LongAnswerWithoutToken, "S answer", "a claim whose answer is too long is answered without its token";
    SameReceiptRefused, "S receipt", "the receipt of an attempt is refused when it is repeated";
    GrownRollbackAccepted, "S root", "a rolled-back ledger is accepted once it has grown beyond the known record";
    GoneLedgerForgotten, "S root", "a run begins anew in the place of a lost ledger";
    ResumedInOldFolder, "S runner", "the workers of a copied or moved ledger are started in the old working folder";
    ServiceStartsAnything, "S runner", "a service starts a command line other than the one that its user saw";
    MovedResultRecorded, "S receipt", "an attempt fails since its folder was moved while its worker worked";
    RequestRetriedWithoutKey, "S once", "a request whose answer was lost is retried without its key";
    RejectedReceiptDispatches, "S receipt", "a rejected receipt still claims the next step";
    LeaseNotRenewed, "S lease", "a worker does not renew its lease while it works";
    InterruptedCheckNotResumed, "S guard", "a check that a crash interrupted is not resumed";
    StoppedCheckPasses, "S guard", "a check that was stopped passes";
    PruneLimitIgnored, "S prune", "the server ignores the requested limit of a prune";
    LeftReceiptIgnored, "S night", "the result of a worker whose runner was killed is thrown away";
    FullDiskSaysNothingHappened, "S night", "a worker that failed on a full disk counts as one that did nothing";
    RetryAfterIgnored, "S night", "a worker that says when to try again is tried again at once";
    QuickFailuresIgnored, "S night", "workers that all fail at once use up every step of a run";
    WorkerNotToldToStop, "S night", "a runner that is asked to stop kills its workers without a warning";
    ClaimBoundToCommand, "S claims", "a claim of the command line is bound to the command, which ends at once";
    ClaimBoundToServer, "S clients", "a claim over the socket is bound to another process than its client";
    DeadClaimsKept, "S night", "a claim of a process that is gone blocks its step until the lease expires";
    LostAttemptsUnlimited, "S night", "a step whose attempts are always lost is dispatched forever";
    NearlyFullDiskIgnored, "S night", "steps are dispatched until the disk is full";
    LinkFollowed, "S links", "a link in the folder of a ledger leads to files of its user, which are changed";
    StagingOfAnotherUserAccepted, "H shared folder", "a ledger is created in a folder that another user can change";
    FolderReachedByPath, "H shared folder", "a ledger's files are opened by path, so a folder that takes its place is written to";
    LinkInsideFollowed, "H shared folder", "a link to a folder inside a ledger leads out of it";
    DraftsLeft, "H draft", "the leftovers of a killed import are never removed";
    LedgerOfAnotherUserFound, "S shared folder", "a command uses a ledger that another user put into a folder above";
    OrphanByPath, "S moved ledger", "a worker of a moved ledger runs beside its successor";
    RejectedOutputStored, "S quota", "the outputs of receipts that are rejected as too late fill the disk";
    LateReceiptsUnlimited, "S quota", "a worker fills the disk with receipts that come too late";
    OldConnectionsKept, "S quota", "idle connections keep other clients out";
    BuffersOfPeerUncounted, "S quota", "many connections of one process end the long message of another one";
    BuffersUnlimited, "S quota", "messages without an end fill the memory of a server";
    AttemptActsAsPerson, "S authority", "the requests of a worker are recorded as those of a person";
    ModelDecides, "S authority", "the word of a model counts as the decision of a person";
    AgentActsAsPerson, "S authority", "an agent accepts a step in the name of its user";
    AgentVersionRuns, "S authority", "a plan version of an agent runs its commands before a person approved it";
    WorkerControlsRun, "S authority", "a worker accepts its own step, raises the budget, or cancels the run";
    OtherAnswererSilent, "S authority", "the answer of another person than the one who was asked is not reported";
    VerdictOfAnyProcess, "S authority", "any process asserts that a command criterion holds";
    TokenSecretIgnored, "S authority", "the secret of a token is not compared, so that any process speaks for an attempt";
    SessionHeldWithoutEnd, "S hosts", "a stop hook holds a session forever, and each hold is a paid request";
    LeftWorkerExpires, "S night", "a command after the lease takes the step of a worker that is still at work, or its result";
    LiveWorkerKilled, "S night", "a worker that pays is killed by the next runner, and it is unknown whether it paid";
    ImportedAnchorNotFolded, "H anchor", "an import starts from a state that its records do not result in";
    FileOfAnyLengthHashed, "S sparse file", "a runner hashes a sparse file for hours";
    // The control: it has no effect, so every test must pass with it.
    NoOp, "none", "nothing";
}

/// The mutant that is enabled in this process.
///
/// # Panics
/// If [`CHOICE`] is not the name of a mutant: a misspelt name must not look like a surviving
/// mutant.
#[must_use]
pub fn enabled() -> Option<Mutant> {
    static ENABLED: OnceLock<Option<Mutant>> = OnceLock::new();
    *ENABLED.get_or_init(|| {
        let name = std::env::var(CHOICE).ok()?;
        let mutant = Mutant::ALL.iter().copied().find(|mutant| mutant.name() == name);
        report_hits_on_panic();
        Some(mutant.unwrap_or_else(|| panic!("{CHOICE}: unknown mutant {name}")))
    })
}

/// How often this process reached the enabled mutant.
static HITS: AtomicU64 = AtomicU64::new(0);

fn mark_reached() {
    let Ok(path) = std::env::var(REACHED) else { return };
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
    file.and_then(|mut file| file.write_all(b"x")).expect("the file is writable");
}

/// Each panic prints the number of hits until the mutant was detected.
fn report_hits_on_panic() {
    let previous = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let hits = HITS.load(Ordering::Relaxed);
        // A failure to print cannot be reported anywhere else.
        let _ = writeln!(io::stderr(), "mutant: hits {hits}");
        previous(panic);
    }));
}

/// Whether a mutant is enabled. Each call that returns true counts as a hit.
#[must_use]
pub fn is_enabled(mutant: Mutant) -> bool {
    let is_enabled = enabled() == Some(mutant);
    if is_enabled && HITS.fetch_add(1, Ordering::Relaxed) == 0 {
        mark_reached();
    }
    is_enabled
}
