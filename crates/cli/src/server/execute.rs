//! Executes requests on a ledger. Each request is decided and applied with no other command in
//! between, and no response is sent before everything that it depends on is durable.

use std::cell::RefCell;

use plan_ledger::ledger::{Ledger, Submitted};
use plan_ledger::log::BatchKey;
use plan_ledger::plan::Verdict;

use crate::protocol::{Answer, Failure, Request};

use super::requests::{
    PendingAnswer, Proposal, Reply, RequestContext, Returned, control, plans, retention, review,
    work,
};

impl Request {
    /// Executes the request and waits until it is durable. Under a key it is executed once, however
    /// often it is repeated.
    ///
    /// # Errors
    /// `Usage` for an unknown name or an invalid request; `Refused`; errors of the ledger.
    pub fn execute(&self, ledger: &Ledger, key: Option<&BatchKey>) -> Result<Answer, Failure> {
        self.submit(ledger, key).wait().map(|pending| pending.finish(ledger))
    }

    /// Whether the request takes no longer than deciding and writing one command.
    pub(crate) fn is_quick(&self) -> bool {
        !matches!(
            self,
            Self::Fork { .. } | Self::Snapshot {} | Self::Prune { .. } | Self::CollectBlobs {}
        )
    }

    /// Executes the request without waiting.
    pub(crate) fn submit<'l>(
        &self,
        ledger: &'l Ledger,
        key: Option<&BatchKey>,
    ) -> Submitted<'l, PendingAnswer, Failure> {
        let commits = RefCell::new(ledger.submit_nothing());
        let answer = self.dispatch(RequestContext { ledger, key, commits: &commits });
        commits.into_inner().with(answer)
    }

    /// The response, which must not be revealed before `context.commits` are durable.
    fn dispatch(&self, context: RequestContext<'_, '_>) -> Result<PendingAnswer, Failure> {
        let answered = match self {
            Self::Propose { run, plan, reason, policy } => {
                plans::propose(context, &Proposal { run, plan, reason, policy: *policy })
            }
            Self::AddStep { run, step, reason } => {
                plans::add_step(context, run.as_deref(), step, reason)
            }
            Self::Review { run, review, by, note, shown } => {
                plans::review(context, run, *review, &Reply { by, note, shown: shown.as_deref() })
            }
            Self::Withdraw { run, by, reason } => plans::withdraw(context, run, by, reason),
            Self::Claim { run, step, worker, lease_seconds } => {
                return work::claim(
                    context,
                    (run.as_deref(), step.as_deref()),
                    worker,
                    *lease_seconds,
                );
            }
            Self::Renew { token, lease_seconds } => work::renew(context, *token, *lease_seconds),
            Self::Release { token, work, reason } => work::release(context, *token, *work, reason),
            Self::Receipt { token, receipt, duration_micros, log_tail, next } => {
                let receipt = Returned { receipt, duration: *duration_micros, log_tail };
                return work::receipt(context, *token, &receipt, next.as_ref());
            }
            Self::Effect { token, key, effect, state } => {
                work::effect(context, *token, (key, effect), *state)
            }
            Self::Judge { run, step, ruling, by, evidence } => {
                review::judge(context, (run, step), (*ruling).into(), by, evidence)
            }
            Self::Verdict { token, run, criterion, ruling, by, evidence } => {
                let (ruling, by, evidence) = ((*ruling).into(), by.clone(), evidence.clone());
                let verdict = Verdict { criterion: *criterion, ruling, by, evidence };
                review::verdict(context, (*token, run.as_deref()), &verdict)
            }
            Self::Answer { question, answer, by, note, shown } => review::answer(
                context,
                *question,
                answer,
                &Reply { by, note, shown: shown.as_deref() },
            ),
            Self::AnswerStep { run, step, answer, by, note, shown } => {
                let reply = Reply { by, note, shown: shown.as_deref() };
                review::answer_step(context, (run, step), answer, &reply)
            }
            Self::Decide { run, step, decision, after_seconds, rule, reason } => {
                review::decide(context, (run, step), (decision, *after_seconds), (rule, reason))
            }
            Self::Retry { run, step, by } => control::retry(context, run, step.as_deref(), by),
            Self::Skip { run, step, by, reason } => control::skip(context, (run, step), by, reason),
            Self::Set { run, name, value, if_version, by } => {
                control::set(context, run.as_deref(), (name, value), *if_version, by)
            }
            Self::Budget { run, change, by } => {
                control::budget(context, run.as_deref(), change, by)
            }
            Self::Cap { scope, limit, by } => control::cap(context, scope, *limit, by),
            Self::Pause { run, by, reason } => control::pause(context, run, by, reason),
            Self::Resume { run, by } => control::resume(context, run, by),
            Self::Cancel { run, by, reason } => control::cancel(context, run, by, reason),
            Self::Fork { run, name, at, step } => {
                control::fork(context, (run, name), *at, step.as_deref())
            }
            Self::Note { run, step, text, by } => {
                review::note(context, (run.as_deref(), step.as_deref()), text, by)
            }
            Self::Tick {} => control::tick(context),
            Self::Snapshot {} => control::snapshot(context),
            Self::Prune { extent, archive, by } => {
                retention::prune(context, *extent, archive.as_ref(), by)
            }
            Self::CollectBlobs {} => retention::collect_blobs(context),
        };
        answered.map(PendingAnswer::Complete)
    }
}
