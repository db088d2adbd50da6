//! The forms that processes exchange: answers and failures, messages on the socket
//! (`format/socket.md`), and the input and output of a worker (`format/hand-off.md`).

mod amounts;
mod answer;
pub(crate) mod failure;
mod gone;
pub(crate) mod hand_off;
mod judge;
mod message;
mod opening;
pub(crate) mod private_files;
mod process;
mod signed_note;
mod trace_context;
mod words;

pub(crate) use amounts::{
    LEASE_HELP, OWNER_HELP, TAG_HELP, parse_lease, parse_money, parse_seconds, parse_timespan,
};
pub use answer::{AckedBy, Answer};
pub use failure::{Code, Failure, Missing, code_of};
pub(crate) use failure::{
    ErrorLine, error_line_of_check, error_line_of_view, expect_short_numbers, plan_too_long,
    split_hint, text_of_error, too_long,
};
pub(crate) use gone::{CLAIM_EXTENSION, claim_record, claims_folder, gone_attempts, gone_text};
pub use hand_off::{
    ArtifactEntry, ChangedFile, DONE_BYTES_MAX, DoneStep, DoneSummary, FailedCriterion, FileState,
    HandOff, Nearby, Neighbour, OutcomeWord, PlanBrief, PlanContext, PreviousAttempt, ReceiptFile,
};
pub(crate) use hand_off::{class_word, describe, title};
pub(crate) use judge::{
    Unchecked, WorkElsewhere, check_folder, checks_folder, has_judge, judge_mark, no_judge_text,
    step_lock, unchecked_text,
};
pub use message::MESSAGE_LENGTH_MAX;
pub(crate) use message::{encode, receive};
pub(crate) use opening::{RolledBackLine, opening};
#[cfg(all(test, not(feature = "store")))]
pub(crate) use plan_ledger_views::takes_ledger;
pub use plan_ledger_views::{BudgetUse, StepName, WorkerKind};
pub(crate) use plan_ledger_views::{
    OWN_LEDGER, approval_of, commands_of, in_ledger, is_unapproved, ledger_option, option, quoted,
    quoted_folder, sh_word, shell_command, unapproved_commands,
};
pub(crate) use plan_ledger_views::{
    OpeningJson, OpeningWord, TrustedCheckJson, TrustsLine, counted, hex, lost_records_text, size,
    slow_text,
};
pub(crate) use process::{
    MACHINE_LENGTH_MAX, Peer, ProcessStatus, is_gone, named_process, not_ignored, process_start,
    this_machine,
};
pub(crate) use signed_note::{NoteError, NoteSigner, NoteVerifier};
pub(crate) use trace_context::{SpanId, TraceId, traceparent};
pub(crate) use words::{ANSWERED_CLASSES, parse_text_policy, parse_words};
