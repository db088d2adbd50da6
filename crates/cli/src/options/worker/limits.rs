//! Options that limit workers which are processes.

use std::time::Duration;

use clap::Args;

use crate::runner::WorkerLimits;

use crate::protocol::{parse_seconds, parse_timespan};

/// Limits of workers.
#[derive(Debug, Args)]
pub(crate) struct WorkerLimitArgs {
    /// End a worker that prints nothing for this long: `90s`, `10m`, or seconds
    #[arg(long, value_name = "DURATION", value_parser = parse_limit)]
    output_timeout: Option<u32>,
    /// End a worker that changes none of its step's files (`changes`) for this long
    #[arg(long, value_name = "DURATION", value_parser = parse_limit)]
    progress_timeout: Option<u32>,
    /// End a worker that prints the same lines this often in a row; a `repeat_limit` in the plan comes first
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u32).range(2..))]
    repeat_limit: Option<u32>,
    /// How long a worker may take to end after SIGTERM, when the runner must stop
    #[arg(long, value_name = "DURATION", value_parser = parse_timespan, default_value = "10s")]
    grace: Duration,
}

impl WorkerLimitArgs {
    /// Whether a worker that does nothing is ended.
    pub(crate) fn ends_workers(&self) -> bool {
        self.output_timeout.is_some() || self.progress_timeout.is_some()
    }

    /// The limits that the options set.
    pub(crate) fn limits(&self) -> WorkerLimits {
        let Self { output_timeout, progress_timeout, repeat_limit, grace } = *self;
        WorkerLimits {
            silent_seconds: output_timeout,
            stalled_seconds: progress_timeout,
            repeat_limit,
            grace,
        }
    }
}

/// A limit in seconds, rounded up.
fn parse_limit(text: &str) -> Result<u32, String> {
    let expected = || format!("expected a time from 1s to {}s, such as 90s or 10m", u32::MAX);
    let seconds = u32::try_from(parse_seconds(text)?).ok();
    seconds.filter(|seconds| *seconds > 0).ok_or_else(expected)
}
