//! The views of `ledger inspect`, one file for each, and the table of them.
//!
//! Views of runs print the results of the library's pure functions for one state (`explain`, the
//! views, the history): they decide nothing themselves, and they print the record of that state.
//! They read a snapshot, the links between a step's records and the postings of a run, never the
//! whole log, so they do not prove that every byte is intact; `ledger verify` does.

pub(crate) mod budget;
pub(crate) mod compare;
pub(crate) mod cost;
pub(crate) mod diff;
pub(crate) mod explain;
pub(crate) mod graph;
pub(crate) mod head;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod next;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod records;
pub(crate) mod regions;
pub(crate) mod run_state;
pub(crate) mod runs;
pub(crate) mod segments;
pub(crate) mod snapshots;
pub(crate) mod status;
pub(crate) mod step;
pub(crate) mod summary;
pub(crate) mod timeline;
pub(crate) mod variables;
pub(crate) mod view;
pub(crate) mod why;

use clap::Subcommand;

use plan_ledger_views as shown;

use super::context::InspectContext;
use super::output::Output;
use crate::json::JsonLine;
#[cfg(test)]
use crate::json::PublishedSchema;
use crate::output::{Code, Failure};

/// The files that a view reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    /// A state, and the records of runs.
    Runs,
    /// The files of the log.
    Log,
}

/// Makes a subcommand of each view, and gives the lines that only it prints their `type`.
macro_rules! inspect_views {
    ($(
        $subject:ident $command:ident($args:ty) by $show:path { $($word:literal => $line:ty),* }
    )*) => {
        // The doc comment of each argument struct is the help of its subcommand.
        #[derive(Debug, Subcommand)]
        pub(super) enum InspectCommand {
            $($command($args),)*
        }

        impl InspectCommand {
            pub(super) fn show(
                &self,
                context: InspectContext<'_>,
                out: &mut Output<'_>,
            ) -> Result<Code, Failure> {
                match self {
                    $(Self::$command(args) => $show(args, context, out),)*
                }
            }

            /// Whether the view shows runs, not only the log.
            pub(super) fn is_of_runs(&self) -> bool {
                let subject = match self {
                    $(Self::$command(_) => Subject::$subject,)*
                };
                subject == Subject::Runs
            }
        }

        $($(impl JsonLine for $line {
            const TYPE: Option<&'static str> = Some($word);
        })*)*

        /// Adds the lines that only these views print to the published schema.
        #[cfg(test)]
        pub(crate) fn add_lines(schema: &mut PublishedSchema) {
            $($(schema.add::<$line>("inspect");)*)*
        }
    };
}

inspect_views! {
    Log Records(records::RecordsArgs) by records::records {
        "open_end" => shown::OpenEndLine,
        "record" => shown::RecordLine<'_>,
        "summary" => shown::RecordsLine<'_>
    }
    Log Segments(segments::SegmentsArgs) by segments::segments { "segment" => shown::SegmentLine }
    Log Head(head::HeadArgs) by head::head {
        "head_slot" => shown::HeadSlotLine,
        "holder" => shown::HolderLine
    }
    Log Snapshots(snapshots::SnapshotsArgs) by snapshots::snapshots {
        "snapshot_file" => shown::SnapshotFileLine<'_>,
        "snapshots" => shown::SnapshotsLine<'_>
    }
    Log Explain(explain::ExplainArgs) by explain::explain {
        "explanation" => shown::ExplanationLine<'_>,
        "region" => shown::RegionLine<'_>
    }
    Runs Step(step::StepArgs) by step::step { "attempt" => shown::AttemptLine<'_> }
    Runs Runs(runs::RunsArgs) by runs::runs {
        "run_row" => shown::RunRowLine,
        "run_state" => shown::RunStateLine<'_>,
        "state" => shown::StateLine<'_>,
        "step_state" => shown::StepStateLine<'_>,
        "question" => shown::QuestionLine,
        "barrier" => shown::BarrierLine<'_>
    }
    Runs Plan(plan::PlanArgs) by plan::plan {
        "plan" => shown::PlanLine<'_>,
        "plan_diff" => shown::VersionDiffLine<'_>,
        "plan_step" => shown::PlanStepLine<'_>,
        "replan_record" => shown::ReplanRecordLine<'_>
    }
    Runs Queue(queue::QueueArgs) by queue::queue {
        "delayed" => shown::DelayedLine<'_>,
        "ready" => shown::ReadyLine<'_>
    }
    Runs Variables(variables::VariablesArgs) by variables::variables {
        "variable" => shown::VariableStateLine<'_>,
        "variable_value" => shown::VariableValueLine<'_>
    }
    Runs Cost(cost::CostArgs) by cost::cost {}
    Runs Metrics(metrics::MetricsArgs) by metrics::metrics { "metrics" => shown::MetricsLine<'_> }
    Runs Diff(diff::DiffArgs) by diff::diff {
        "change" => shown::ChangeLine<'_>,
        "comparison" => shown::ComparisonLine<'_>
    }
    Runs Why(why::WhyArgs) by why::why {}
    Runs Timeline(timeline::TimelineArgs) by timeline::timeline {
        "interval" => shown::IntervalLine<'_>
    }
    Runs Graph(graph::GraphArgs) by graph::graph { "node" => shown::NodeLine }
    Runs Progress(progress::ProgressArgs) by progress::progress {
        "progress" => shown::ProgressLine
    }
}
