//! One file for each view: a struct. Its serialization is the JSON, and its document becomes text
//! and HTML.
//!
//! A view is built from the state of a run and from records. Its lines are those of `format/inspect-json.md`; members
//! that only its document shows are not serialized.

mod attempts;
mod barriers;
mod budget;
mod changes;
mod comparison;
mod contents;
mod cost;
mod damage;
mod decisions;
mod execution_state;
mod explanation;
mod graph;
mod head;
mod heading;
mod health;
mod history;
mod logs;
mod metrics;
mod next;
mod operator;
mod plan;
mod plan_diff;
mod prime;
mod progress;
mod question_facts;
mod queue;
mod record_list;
mod regions;
mod repeats;
mod replans;
mod run;
mod runs;
mod segments;
mod since;
mod snapshots;
mod stale;
mod state;
mod status;
mod step;
mod step_definition;
mod timeline;
mod trace;
mod variables;
mod waits;
mod why;

pub use attempts::{AttemptLine, KnownBlob, KnownBlobs};
pub use barriers::{BarrierLine, Barriers, barrier_text};
pub use budget::{Budget, BudgetLine, MilestoneLine, budget_charts, runs_out_of_budget};
pub use changes::{ChangeLine, Changes};
pub use comparison::{ComparisonLine, comparison_document};
pub use contents::{Contents, LedgerLine};
pub use cost::{Costs, RunCostLine, StepCostLine};
pub use damage::{
    Finding, FindingLine, FindingPlace, damage_text, finding_document, finding_text, findings,
    lost_lines, lost_records_text, lost_text, no_run_text, readable_text, unread_document,
};
pub use decisions::{DecisionLine, decisions, decisions_document};
pub use execution_state::{ExecutionStateLine, finished_steps};
pub use explanation::{ByteExplanation, ExplanationLine};
pub use graph::{GraphView, NodeLine, NodeStatus, NodeWord};
pub use head::{HeadSlotLine, HeadView, HolderLine};
pub use heading::run_heading;
pub use health::{
    HealthLine, HealthWord, LedgerHealthJson, OpeningJson, OpeningWord, health_document,
};
pub use history::HistoryEntry;
pub use logs::{LogLine, LogSource, Stream, event_among_logs};
pub use metrics::{Mark, MetricsLine};
pub use next::{NextLine, NextSummaryLine, RunActions, next_document};
pub use operator::OperatorViewLine;
pub use plan::{PlanLine, PlanStepLine, PlanView, VersionDiffLine};
pub use plan_diff::{
    PlanDiffJson, PlanDiffLine, plan_diff_document, plan_diff_text, redone_steps, redone_text,
};
pub use prime::{
    AnswerNoteJson, ChangeJson, ClaimedStepJson, PRIME_LENGTH_MAX, PlanNotes, PrimeLine,
    ReadyStepJson, RejectionJson, WaitingJson, prime_text,
};
pub use progress::{ProgressLine, ProgressView};
pub use question_facts::{QuestionFact, facts as question_facts};
pub use queue::{DelayedLine, QueueView, ReadyLine};
pub use record_list::{OpenEndLine, RecordList, RecordsLine};
pub use regions::{Region, RegionClass, RegionLine, regions_document};
pub use repeats::{RepeatJson, repeated_text};
pub use replans::{ReplanRecordLine, Replans};
pub use run::{RunLine, RunView};
pub use runs::{RunRowLine, Runs};
pub use segments::{SegmentLine, Segments};
pub use since::{Since, SinceLine};
pub use snapshots::{SnapshotFileLine, Snapshots, SnapshotsLine};
pub use stale::{stale_document, stale_text};
pub use state::{RunState, RunStateLine, StateLine};
pub use status::{StatusView, UserViewLine, warnings_document};
pub use step::{KnownStep, StepLine, StepView, step_record_document};
pub use step_definition::step_definition;
pub use timeline::{IntervalLine, StepTimelines};
pub use trace::{Trace, TracedLine, UnavailableLine};
pub use variables::{
    VariableHistory, VariableStateLine, VariableValueLine, Variables, origin_text,
};
pub use waits::{WaitJson, inside_wait_text, wait_text};
pub use why::{WhyLine, WhyView, explanation_document};
