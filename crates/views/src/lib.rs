//! Views: each answers one question about a run, as a value that every interface renders.
//!
//! A view is built from the engine's state and the caller's knowledge of processes. The package prints nothing and
//! reads no files, so that all interfaces give the same answer. [`RunActivity`] says how a run stands,
//! [`waiting_items`] lists the items that a run waits for, [`next_items`] also the next steps, and [`Advice`] is a
//! command that resolves one. A view serializes itself as JSON and describes itself as a [`Document`]; [`text_lines`]
//! and [`html()`] turn it into text and HTML.

mod activity;
mod advice;
mod approval;
mod criteria;
mod json;
mod layout;
mod next;
mod records;
mod render;
mod runner;
mod shell;
mod views;
mod waiting;
mod words;

pub use activity::{
    Activity, ActivityJson, RunActivity, RunActivityJson, RunProgress, recorded_status,
    recorded_text, start_or_resume,
};
pub use advice::{Advice, Audience};
pub use approval::{
    approval_of, commands_of, commands_of_active, commands_of_version, is_unapproved,
    unapproved_commands,
};
pub use criteria::{
    TrustedCheckJson, TrustsLine, failed_criteria, may_hold, open_criteria, open_plan_criteria,
    open_steps, texts_and_commands, trusted_text,
};
pub use json::{
    AnyJson, FailureJson, FlightJson, QuestionLine, ReplanRequestJson, RunStatusJson,
    StaleFilesJson, StepReasonsJson, StepStateLine, status_word,
};
#[cfg(feature = "schema")]
pub use json::{EventSchema, event_definition};
pub use layout::{
    Bar, Block, Document, Paint, Series, Span, Table, Text, Timeline, TimelineCell, TimelineRow,
    Tree, TreeRow, scaled,
};
pub use next::{
    KnownRun, NextAction, NextActionJson, NextGroup, NextItem, next_dispatch, next_items,
};
pub use records::{
    AnswerOfAnother, BatchKeyJson, FrameFieldJson, RecordContent, RecordLine, RecordRow,
    RecordStatusWord, answered, asked_person, basis_text, blob_text, content_text,
    cost_correction_text, decided_by, decision_text, event_subject, event_text, fork_text,
    frame_document, kind_name, meaning, note_text, outcome_text, record_document, step_event_text,
    verdict_text,
};
pub use render::*;
pub use runner::{
    AtWork, CheckAtWork, GoneClaim, InsideWait, KnownRunner, LeftWorker, Repeat, RepeatingAttempt,
    RunnerPresence, RunnerWait, gone_steps, hosted_steps, steps_in_flight, waits_of,
};
pub use shell::{
    OWN_LEDGER, end_of_command, in_ledger, ledger_option, option, quoted, quoted_folder, sh_word,
    shell_command, takes_ledger,
};
pub use views::*;
pub use waiting::{
    WaitingItem, WaitsFor, approve_version, has_plan, perform, plan_file, raise_by, rejected_text,
    resolve_outcome, show_step, start_another, start_judge, start_runner, waiting_items,
    waiting_texts,
};
pub use words::*;
