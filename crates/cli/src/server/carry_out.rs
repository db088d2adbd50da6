//! Carrying out an act on a ledger that is held.
//!
//! Invariants:
//! - An act finds what it names, is judged, written and answered with nothing in between.
//! - Nobody gets an answer before it, and all that it stands on, is durable.

use plan_ledger::ledger::{CommandSource, Ledger, PendingCommits, Task, Transaction};
use plan_ledger::log::BatchKey;
use plan_ledger::plan::{Command, Event, State, Verdict};

use super::people::Said;
use super::plans::Proposal;
use super::work::Returned;
use super::{Act, Answer, Failure, people, plans, retention, steer, work};

/// A ledger, and the key under which an act is written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hand<'a> {
    pub(super) ledger: &'a Ledger,
    pub(super) key: Option<&'a BatchKey>,
    /// What is to be durable before the answer is given.
    pub(super) later: &'a PendingCommits,
}

impl Hand<'_> {
    /// Make a command of the state, carry it out, and read off what it came to.
    pub(super) fn act<T>(
        self,
        make: &dyn Fn(&State) -> Result<Command, Failure>,
        read: impl FnOnce(&State, &[(u64, Event)]) -> T,
    ) -> Result<T, Failure> {
        let wish =
            Transaction { key: self.key, command: CommandSource::FromState(make), and_then: None };
        self.ledger.transact_deferred(&wish, read, self.later)
    }

    /// Look at the state as it is.
    pub(super) fn look<T>(self, read: impl FnOnce(&State) -> T) -> Result<T, Failure> {
        Ok(self.ledger.read_deferred(read, self.later)?)
    }
}

/// Longer requests and inputs, in bytes, are dealt with by a thread of their own.
pub(super) const QUICK_LENGTH_MAX: usize = 64 << 10;

/// What an act came to, while it may not be durable yet.
#[derive(Debug)]
pub(super) enum Half {
    Answer(Answer),
    /// A step was dealt to that worker, behind what is answered already. What the worker is told of
    /// attempts before and of files is read when it is durable.
    Dealt(Answer, Box<Task>, String),
}

impl Half {
    /// Whether something is left to be read or much is to be told, which may take long.
    pub(super) fn takes_time(&self) -> bool {
        match self {
            Self::Answer(_) => false,
            Self::Dealt(_, task, _) => {
                let inputs: usize = task.inputs.iter().map(|(_, value)| value.as_str().len()).sum();
                task.attempt > 1 || !task.step.changes.is_empty() || inputs > QUICK_LENGTH_MAX
            }
        }
    }

    /// The whole answer, of what is durable.
    pub(super) fn finish(self, ledger: &Ledger) -> Answer {
        match self {
            Self::Answer(answer) => answer,
            Self::Dealt(before, task, worker) => {
                before.and(work::task_answer(&ledger.complete_task(*task), &worker))
            }
        }
    }
}

impl Act {
    /// Carry it out. Under a key it is done once, however often it is asked for.
    ///
    /// # Errors
    /// `Usage` for a name that is not there or an act that cannot be meant; `Refused`; and what
    /// the ledger says.
    pub fn carry_out(&self, ledger: &Ledger, key: Option<&BatchKey>) -> Result<Answer, Failure> {
        let later = PendingCommits::default();
        let outcome = self.begin(Hand { ledger, key, later: &later });
        ledger.wait_pending(&later)?;
        outcome.map(|half| half.finish(ledger))
    }

    /// Whether it takes no longer than judging and writing a command takes.
    pub(super) fn is_quick(&self) -> bool {
        !matches!(
            self,
            Self::Fork { .. } | Self::Snapshot {} | Self::Prune { .. } | Self::CollectBlobs {}
        )
    }

    /// The same; nobody is to be told how it ended before it is settled.
    pub(super) fn begin(&self, hand: Hand<'_>) -> Result<Half, Failure> {
        let answered = match self {
            Self::Propose { run, plan, reason, policy } => {
                plans::propose(hand, &Proposal { run, plan, reason, policy: *policy })
            }
            Self::AddStep { run, step, reason } => {
                plans::add_step(hand, run.as_deref(), step, reason)
            }
            Self::Review { run, review, by, note, shown } => {
                plans::review(hand, run, *review, &Said { by, note, shown: shown.as_deref() })
            }
            Self::Withdraw { run, by, reason } => plans::withdraw(hand, run, by, reason),
            Self::Claim { run, step, worker, lease_seconds } => {
                return work::claim(
                    hand,
                    (run.as_deref(), step.as_deref()),
                    worker,
                    *lease_seconds,
                );
            }
            Self::Renew { token, lease_seconds } => work::renew(hand, *token, *lease_seconds),
            Self::Release { token, work, reason } => work::release(hand, *token, *work, reason),
            Self::Receipt { token, receipt, duration_micros, log_tail, next } => {
                let receipt = Returned { receipt, duration: *duration_micros, log_tail };
                return work::receipt(hand, *token, &receipt, next.as_ref());
            }
            Self::Effect { token, key, effect, state } => {
                work::effect(hand, *token, (key, effect), *state)
            }
            Self::Judge { run, step, ruling, by, evidence } => {
                people::judge(hand, (run, step), (*ruling).into(), by, evidence)
            }
            Self::Verdict { token, run, criterion, ruling, by, evidence } => {
                let (ruling, by, evidence) = ((*ruling).into(), by.clone(), evidence.clone());
                let verdict = Verdict { criterion: *criterion, ruling, by, evidence };
                people::verdict(hand, (*token, run.as_deref()), &verdict)
            }
            Self::Answer { question, answer, by, note, shown } => {
                people::answer(hand, *question, answer, &Said { by, note, shown: shown.as_deref() })
            }
            Self::AnswerStep { run, step, answer, by, note, shown } => {
                let said = Said { by, note, shown: shown.as_deref() };
                people::answer_step(hand, (run, step), answer, &said)
            }
            Self::Decide { run, step, decision, after_seconds, rule, reason } => {
                people::decide(hand, (run, step), (decision, *after_seconds), (rule, reason))
            }
            Self::Retry { run, step, by } => steer::retry(hand, run, step.as_deref(), by),
            Self::Skip { run, step, by, reason } => steer::skip(hand, (run, step), by, reason),
            Self::Set { run, name, value, if_version, by } => {
                steer::set(hand, run.as_deref(), (name, value), *if_version, by)
            }
            Self::Budget { run, change, by } => steer::budget(hand, run.as_deref(), change, by),
            Self::Cap { scope, limit, by } => steer::cap(hand, scope, *limit, by),
            Self::Pause { run, by, reason } => steer::pause(hand, run, by, reason),
            Self::Resume { run, by } => steer::resume(hand, run, by),
            Self::Cancel { run, by, reason } => steer::cancel(hand, run, by, reason),
            Self::Fork { run, name, at, step } => {
                steer::fork(hand, (run, name), *at, step.as_deref())
            }
            Self::Note { run, step, text, by } => {
                people::note(hand, (run.as_deref(), step.as_deref()), text, by)
            }
            Self::Tick {} => steer::tick(hand),
            Self::Snapshot {} => steer::snapshot(hand),
            Self::Prune { extent, archive, by } => {
                retention::prune(hand, *extent, archive.as_ref(), by)
            }
            Self::CollectBlobs {} => retention::collect_blobs(hand),
        };
        answered.map(Half::Answer)
    }
}
