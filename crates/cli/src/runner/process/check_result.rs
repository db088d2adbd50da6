//! The result of a check: an exit status, a verdict or a plan, depending on how the check answers.

use std::path::PathBuf;
use std::process::ExitStatus;

use plan_ledger::Ruling;

use crate::runner::check::{CheckAnswer, Subject};
use crate::runner::helpers::judge;
use crate::runner::process::limits::EndedBy;
use crate::runner::process::output::{OUTPUT_LENGTH_MAX, last_line, read_limited, tail};

/// The number of bytes of a check's output that become evidence.
const EVIDENCE_LENGTH_MAX: u64 = 1 << 10;

/// A check that has ended.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) by: Option<EndedBy>,
    pub(crate) output: PathBuf,
    pub(crate) errors: PathBuf,
}

impl Ended {
    fn how(&self) -> String {
        match (self.by, self.status.code()) {
            (Some(by), _) if !by.is_request() => by.message(),
            (_, Some(code)) => format!("exit status {code}"),
            (_, None) => self.status.to_string(),
        }
    }

    /// The reason why it gave no answer.
    fn failure(&self) -> String {
        let last = last_line(&tail(&self.errors, EVIDENCE_LENGTH_MAX));
        last.map_or_else(|| self.how(), |last| format!("{}: {last}", self.how()))
    }
}

/// The ruling and its evidence.
pub(crate) fn ruling(
    subject: Subject,
    answer: CheckAnswer,
    ended: &Ended,
) -> (Option<Ruling>, String) {
    let is_stopped = ended.by.is_some_and(EndedBy::is_request);
    let (ruling, evidence) = match answer {
        CheckAnswer::Status => of_status(subject, ended),
        _ if !ended.status.success() => (unanswered(subject, answer), ended.failure()),
        CheckAnswer::Verdict => match read_limited(&ended.output, OUTPUT_LENGTH_MAX)
            .and_then(|printed| judge::verdict(&printed))
        {
            Ok((ruling, evidence)) => (Some(ruling), evidence),
            Err(problem) => (None, problem),
        },
        CheckAnswer::Reply => {
            let text = |bytes| String::from_utf8(bytes).map_err(|error| error.to_string());
            match read_limited(&ended.output, OUTPUT_LENGTH_MAX).and_then(text) {
                Ok(printed) => (Some(Ruling::Pass), printed),
                Err(problem) => (Some(Ruling::Fail), problem),
            }
        }
    };
    (ruling.filter(|_| !is_stopped), evidence)
}

fn of_status(subject: Subject, ended: &Ended) -> (Option<Ruling>, String) {
    let ruling = match (subject, ended.status.code()) {
        (_, Some(0)) => Some(Ruling::Pass),
        // A probe with any other status has no result.
        (Subject::Probe(_), Some(1)) => Some(Ruling::Fail),
        (Subject::Probe(_), _) => None,
        _ => Some(Ruling::Fail),
    };
    let printed = tail(&ended.errors, EVIDENCE_LENGTH_MAX);
    (ruling, format!("{}\n{printed}", ended.how()).trim_end().to_owned())
}

/// The ruling of a check without an answer: none for a probe or a judge, and failure for every other check.
pub(crate) fn unanswered(subject: Subject, answer: CheckAnswer) -> Option<Ruling> {
    match (subject, answer) {
        (Subject::Probe(_), _) | (_, CheckAnswer::Verdict) => None,
        _ => Some(Ruling::Fail),
    }
}
