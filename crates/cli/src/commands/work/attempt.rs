//! Runs the command of one attempt.

use std::thread::scope;

use serde_json::Value;

use plan_ledger::{Error, Receipt};

use crate::output::{Code, code_of, print_message};
use crate::protocol::sh_word;
use crate::requests::Work;
use crate::runner::{End, ExternalWork, Order, StartFailure, StopRequest};

use super::lease::{Heartbeat, Lease};
use super::report::ClaimedAttempt;
use super::watch::FileWatch;
use super::worker::Worker;

/// How an attempt ended.
pub(super) enum AttemptEnd {
    /// The command ended, with this receipt, and perhaps with a note about the files that it changed.
    Reported(Box<Receipt>, Option<String>),
    /// The attempt was over before its command ended: there is nothing to report.
    Over,
    /// The command did not report: its progress, the reason, and the exit code of `ledger work`.
    Lost(Work, String, Code),
}

impl Worker<'_> {
    /// Runs the command on a task, and renews the lease meanwhile.
    pub(super) fn run_attempt(&mut self, task: &Value, attempt: &mut ClaimedAttempt) -> AttemptEnd {
        let own = task.pointer("/step/command").and_then(Value::as_str);
        let words: Vec<String> = self.args.command.iter().map(|word| sh_word(word)).collect();
        let command = own.map_or_else(|| format!("exec {}", words.join(" ")), str::to_owned);
        let work = ExternalWork {
            ledger: &self.ledger,
            folder: self.files().to_owned(),
            task,
            command: &command,
            limits: self.args.limits.limits(),
            servers: self.args.ledger.servers(),
        };
        let mut lease = Lease::of(task, self.time());
        let ledger = self.ledger.clone();
        let mut watch = FileWatch::start(&ledger, task);
        let (signals, client) = (&self.signals, &mut self.heartbeats);
        let ended = scope(|scope| {
            let failed = |error| Error::io("start the heartbeat thread", &self.ledger, error);
            let heartbeat = Heartbeat::start(scope, attempt.token, client)
                .map_err(|error| StartFailure::BeforeStart(failed(error)))?;
            let step = task.pointer("/step/id").and_then(Value::as_str).unwrap_or_default();
            let noted = |note: &str| print_message(&format!("step {step}: {note}"));
            let order = || {
                lease.renew_if_due(&heartbeat);
                if let Some(watch) = &mut watch {
                    watch.look();
                }
                match signals.request() {
                    _ if lease.is_over() => Order::End,
                    StopRequest::None | StopRequest::Drain => Order::Continue,
                    StopRequest::Kill => Order::Stop,
                }
            };
            let ended = work.run(order, noted);
            lease.finish(&heartbeat);
            ended
        });
        attempt.until = lease.until();
        match ended {
            Ok(End::Stopped) if lease.is_over() => AttemptEnd::Over,
            Ok(End::Returned(receipt)) => {
                AttemptEnd::Reported(receipt, watch.and_then(FileWatch::finish))
            }
            Ok(End::Stopped) => {
                let reason = "it was ended before it reported".to_owned();
                AttemptEnd::Lost(Work::Begun, reason, Code::Waiting)
            }
            Err(StartFailure::BeforeStart(error)) => {
                AttemptEnd::Lost(Work::NotBegun, error.to_string(), code_of(&error))
            }
            Err(StartFailure::AfterStart(error)) => {
                AttemptEnd::Lost(Work::Begun, error.to_string(), code_of(&error))
            }
        }
    }
}
