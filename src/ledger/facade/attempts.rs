//! Operations on attempts: dispatch, leases, receipts, verdicts, side effects and costs.
//!
//! # Errors
//! Every method that writes fails with `Rejected` and the reason if the command is invalid, and
//! with the other errors that [`Ledger::execute`] lists.

use crate::error::{Error, Result};
use crate::ledger::transaction::commit::{Commit, status_of_attempt, step_of_attempt};
use crate::ledger::transaction::dispatch;
use crate::ledger::transaction::submit::CommitOptions;
use crate::ledger::transaction::task::Task;
use crate::plan::{
    AttemptToken, Command, Cost, LostCause, Proof, Receipt, Rejection, Route, RunId, State,
    StepNumber, StepStatus, Timestamp, Token, Verdict,
};

use super::cost_correction;
use super::ledger::Ledger;

/// Workers and their attempts.
impl Ledger {
    /// Dispatch the first step of a run's queue. `None` if nothing can be dispatched now: the queue
    /// is empty, a cap is reached, the run is paused (perhaps by this call, if it finds that a
    /// budget is used up), the rest of a budget is reserved, or the run has ended;
    /// [`Ledger::state`] shows the cause. Due events, such as expired leases, are recorded first.
    ///
    /// # Errors
    /// `Rejected` if there is no such run or it has no active plan; as [`Ledger::execute`].
    pub fn dispatch(&self, run: RunId, worker: &str) -> Result<Option<Task>> {
        self.dispatch_if(run, (worker, &Route::default()), &|_| true)
    }

    /// As [`Ledger::dispatch`] to a worker that takes the steps of a route, as long as a condition on
    /// the state holds.
    #[doc(hidden)]
    pub fn dispatch_if(
        &self,
        run: RunId,
        worker: (&str, &Route),
        condition: &dyn Fn(&State) -> bool,
    ) -> Result<Option<Task>> {
        let dispatched = dispatch::try_dispatch(&self.engine, run, worker, condition)?;
        Ok(dispatched.ok())
    }

    /// Dispatch this step only. Expired leases are recorded first.
    ///
    /// # Errors
    /// `Rejected`: with `Leased`, the worker and the lease if another worker has claimed it;
    /// `OtherOwner` if it is for a person; `NotReady`, `CapReached`, `BudgetReserved`; with `Paused` if a budget is used up, even if
    /// this call is the first to find that.
    pub fn claim_step(&self, run: RunId, step: StepNumber, worker: &str) -> Result<Task> {
        dispatch::claim(&self.engine, run, step, worker)
    }

    /// Renew the lease of an attempt, and return when it expires now: a [`Timestamp`], in microseconds
    /// since the Unix epoch. Any thread that knows the token can do it while another one works on the task.
    pub fn renew(&self, token: Token) -> Result<Timestamp> {
        self.renew_proven(token.seq, token.into())
    }

    /// As [`Ledger::renew`], for a worker that this process hosts: the lock holder needs no secret.
    #[doc(hidden)]
    pub fn renew_hosted(&self, token: AttemptToken) -> Result<Timestamp> {
        self.renew_proven(token, Proof::LockHolder)
    }

    fn renew_proven(&self, token: AttemptToken, proof: Proof) -> Result<Timestamp> {
        self.execute_and_read(&Command::Renew { token, proof, lease: None }, |state| {
            let attempt = step_of_attempt(state, token).and_then(|step| step.attempt());
            attempt.map_or(0, |attempt| attempt.lease_until)
        })
    }

    /// Record that an attempt will never report. The caller needs no secret: the process of the
    /// attempt may have ended.
    pub fn report_lost(
        &self,
        token: impl Into<AttemptToken>,
        cause: LostCause,
        detail: &str,
    ) -> Result<Commit> {
        let (token, proof, detail) = (token.into(), Proof::LockHolder, detail.to_owned());
        self.execute(&Command::ReportLost { token, proof, cause, detail })
    }

    /// Record the receipt of an attempt and all of its consequences, and return the step's status.
    ///
    /// # Errors
    /// `Rejected`: with `NoSuchOutput` if it names an output that does not exist, and with
    /// `StaleToken` if the attempt is over. A stale receipt is recorded as rejected, except in two
    /// cases: no attempt has this token, or the state has only a summary of the attempt's run,
    /// since [`crate::plan::ENDED_KEPT`] other runs have ended after it.
    pub fn record_receipt(&self, token: Token, receipt: Receipt) -> Result<StepStatus> {
        self.record_proven(token.seq, token.into(), receipt)
    }

    /// As [`Ledger::record_receipt`], for a worker that this process hosts or that has ended: the
    /// lock holder needs no secret.
    #[doc(hidden)]
    pub fn record_hosted_receipt(
        &self,
        token: AttemptToken,
        receipt: Receipt,
    ) -> Result<StepStatus> {
        self.record_proven(token, Proof::LockHolder, receipt)
    }

    fn record_proven(
        &self,
        token: AttemptToken,
        proof: Proof,
        receipt: Receipt,
    ) -> Result<StepStatus> {
        let command = Command::RecordReceipt { token, proof, receipt };
        let options = CommitOptions { command: Some(&command), ..CommitOptions::default() };
        let submitted = self.transact_with(options, |transaction| {
            transaction.record_receipt(None)?;
            Ok::<_, Error>(status_of_attempt(transaction.state(), token))
        });
        let (commit, status) = submitted.wait_commit()?;
        if commit.rejects_receipt() {
            return Err(Rejection::StaleToken(token).into());
        }
        Ok(status)
    }

    /// Record the receipt of an attempt and dispatch the next step of the same run to the worker, in
    /// one commit, so that a whole step costs one sync. Returns the status of the reported step, and
    /// the task, if one could be dispatched.
    ///
    /// # Errors
    /// As [`Ledger::record_receipt`]; after an error nothing was dispatched.
    pub fn record_receipt_and_dispatch(
        &self,
        token: Token,
        receipt: Receipt,
        worker: &str,
    ) -> Result<(StepStatus, Option<Task>)> {
        dispatch::record_receipt_and_dispatch(&self.engine, token, receipt, worker)
    }

    /// Record verdicts on criteria of a reported step, and return its status.
    pub fn judge(
        &self,
        token: impl Into<AttemptToken>,
        verdicts: Vec<Verdict>,
    ) -> Result<StepStatus> {
        let token = token.into();
        let command = Command::Judge { token, verdicts };
        self.execute_and_read(&command, |state| status_of_attempt(state, token))
    }

    /// Record that a worker is about to cause a side effect, under a key for deduplication.
    ///
    /// # Errors
    /// `Rejected`: with `EffectKnown` if it has already happened and must not be repeated;
    /// `StaleToken`.
    pub fn intend_effect(&self, token: Token, effect: &str, key: &str) -> Result<Commit> {
        let (effect, key) = (effect.to_owned(), key.to_owned());
        let (token, proof) = (token.seq, token.into());
        self.execute(&Command::IntendEffect { token, proof, effect, key })
    }

    /// Record that the intended side effect happened.
    pub fn commit_effect(&self, token: Token, key: &str) -> Result<Commit> {
        let (token, proof, key) = (token.seq, token.into(), key.to_owned());
        self.execute(&Command::CommitEffect { token, proof, key })
    }

    /// Correct the cost of an attempt that is over. `charged` is its current charge, from its
    /// receipt or the last correction. It is required if the attempt reported, and is compared with
    /// the attempt's records unless they were pruned.
    ///
    /// # Errors
    /// `Rejected`: with `ChargeDiffers`, giving the charge; `NotEstimated` if `charged` is
    /// missing; `StaleToken`. `Corrupt` if a record of the step cannot be read. The write errors of
    /// [`Ledger::execute`].
    pub fn correct_cost(
        &self,
        token: impl Into<AttemptToken>,
        cost: Cost,
        charged: Option<Cost>,
        by: &str,
    ) -> Result<Commit> {
        cost_correction::correct_cost(&self.engine, token.into(), cost, charged, by)
    }
}
