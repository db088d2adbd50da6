//! Random commands: most of them sensible in the current state, some not.

use std::collections::BTreeMap;

use super::rng::TestRng;
use crate::plan::tests::support::*;
use crate::plan::*;

/// The runs that the commands are about.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Workload {
    /// A few runs with steps in progress.
    FewRuns,
    /// Many runs that end soon.
    ManyRuns,
}

/// Runs as they were at some record, for forks.
pub(super) type Past = BTreeMap<u64, Run>;

const BY: &str = "ann";

impl TestRng {
    /// A command that may or may not be accepted.
    pub(super) fn command(
        &mut self,
        workload: Workload,
        ledger: &TestLedger,
        past: &Past,
    ) -> Command {
        let state = &ledger.state;
        let is_open = |run: &&Run| !matches!(run.status, RunStatus::Ended(_));
        let open: Vec<RunId> = state.runs.values().filter(is_open).map(|run| run.id).collect();
        let all: Vec<RunId> = state.runs.keys().copied().collect();
        if (open.is_empty() && self.below(3) > 0)
            || (workload == Workload::ManyRuns && self.one_in(2))
        {
            return self.start(ledger);
        }
        let run = match self.below(40) {
            0 => RunId(77),
            1..=3 if !all.is_empty() => self.pick(&all),
            _ if !open.is_empty() => self.pick(&open),
            _ => RunId(1),
        };
        if workload == Workload::ManyRuns && self.one_in(2) {
            return Command::CancelRun { run, by: BY.to_owned(), reason: "enough".to_owned() };
        }
        let is_proposed = |run: &Run| run.status == RunStatus::Proposed;
        if state.runs.get(&run).is_some_and(is_proposed) && self.one_in(2) {
            return self.propose(ledger, run);
        }
        if !state.questions.is_empty() && self.one_in(8) {
            return self.answer(state);
        }
        // Mostly dispatches where there is nothing to report or to judge.
        let is_idle = state.in_flight.is_empty() && self.below(8) > 0;
        let is_judged = state.runs.values().all(|run| run.reported.is_empty());
        match self.below(100) {
            0..=19 => self.dispatch(state, run),
            20..=42 | 60..=72 if is_idle => self.dispatch(state, run),
            20..=42 => self.report(state),
            43..=54 if is_judged && self.below(8) > 0 => self.report(state),
            43..=54 => {
                Command::Judge { token: self.reported_token(state), verdicts: self.verdicts() }
            }
            55..=59 => Command::Tick,
            60..=79 => self.attempt_command(state, run),
            80..=94 => self.run_command(ledger, run),
            95..=96 => self.propose(ledger, run),
            97 => self.fork(ledger, past),
            _ => self.start(ledger),
        }
    }

    fn any_step(&mut self, state: &State, run: RunId) -> StepNumber {
        let steps = state.runs.get(&run).map_or(0, |run| run.steps.len());
        StepNumber(1 + self.below(u32::try_from(steps).unwrap() + 1))
    }

    fn dispatch(&mut self, state: &State, run: RunId) -> Command {
        let step = if self.one_in(4) { Some(self.any_step(state, run)) } else { None };
        let worker = self.pick(&["worker-1", "worker-2"]).to_owned();
        Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run,
            step,
            worker,
            route: Route::default(),
            lease: self.lease(),
        }
    }

    fn lease(&mut self) -> Option<Micros> {
        self.maybe(3, |rng| Micros::from(1 + rng.below(2_000)) * SECOND)
    }

    fn report(&mut self, state: &State) -> Command {
        Command::RecordReceipt {
            proof: Proof::LockHolder,
            token: self.token(state),
            receipt: self.receipt(),
        }
    }

    fn attempt_command(&mut self, state: &State, run: RunId) -> Command {
        let token = self.token(state);
        let step = self.unresolved_step(state, run);
        let by = BY.to_owned();
        match self.below(14) {
            0 | 1 => Command::Renew { proof: Proof::LockHolder, token, lease: self.lease() },
            2..=4 => {
                let causes = [LostCause::RunnerDied, LostCause::Released, LostCause::LeaseExpired];
                Command::ReportLost {
                    proof: Proof::LockHolder,
                    token,
                    cause: self.pick(&causes),
                    detail: "gone".to_owned(),
                }
            }
            5 | 6 => {
                let finding = self.pick(&[ResolvedOutcome::Landed, ResolvedOutcome::DidNotHappen]);
                Command::ResolveOutcome { run, step, finding, by, evidence: String::new() }
            }
            7 | 13 => Command::IntendEffect {
                proof: Proof::LockHolder,
                token,
                effect: "mail".to_owned(),
                key: self.key(),
            },
            8 => {
                let mut effects = state.runs.get(&run).into_iter().flat_map(|run| &run.effects);
                let meant = effects.rfind(|(_, effect)| effect.committed == 0);
                let known = meant.map(|(key, effect)| (effect.token, key.clone()));
                let (token, key) = known.unwrap_or_else(|| (token, self.key()));
                Command::CommitEffect { proof: Proof::LockHolder, token, key }
            }
            9 => {
                let charged = self.maybe(2, Self::cost);
                Command::CorrectCost { token, cost: self.cost(), charged, by }
            }
            _ => {
                let decision = self.pick(&[
                    Decision::Retry,
                    Decision::Fail,
                    Decision::RetryAt { due: state.time + 4 * SECOND },
                    Decision::Fallback,
                    Decision::Replan,
                    Decision::Escalate,
                    Decision::Abort,
                    Decision::OutcomeUnknown,
                ]);
                let step = self.failed_step(state, run);
                let (rule, reason) = ("judge".to_owned(), "why not".to_owned());
                let (class, from, by) = (None, None, "judge".to_owned());
                Command::DecideFailure { run, step, decision, class, from, rule, reason, by }
            }
        }
    }

    fn run_command(&mut self, ledger: &TestLedger, run: RunId) -> Command {
        let state = &ledger.state;
        let step = self.any_step(state, run);
        let (by, reason) = (BY.to_owned(), "because".to_owned());
        match self.below(26) {
            0 => Command::JudgePlan { run, verdicts: self.verdicts() },
            1 | 2 => {
                Command::JudgePlan { run, verdicts: vec![verdict(self.below(2), Ruling::Pass, BY)] }
            }
            3 => {
                Command::MarkDoneBefore { run, steps: vec![(step, reason.clone()), (step, reason)] }
            }
            4 => Command::Skip { run, step, by, reason },
            5 => Command::RetryFailed { run, by },
            6 => Command::Retry { run, step, by },
            7..=10 => Command::SetVariable {
                run,
                name: self.pick(&["u", "v", "w"]).to_owned(),
                value: Json::from(serde_json::json!(self.below(6))),
                expected_version: self.pick(&[None, None, Some(0), Some(1)]),
                origin: Origin::person(by),
            },
            11 | 12 => {
                let tag = CapScope::Tag { tag: self.pick(&["gpu", "db"]).to_owned() };
                let owner = CapScope::Owner { owner: "x".to_owned() };
                let scope =
                    self.pick(&[CapScope::Ledger, CapScope::Run { run }, owner, tag.clone(), tag]);
                let limit = self.pick(&[None, None, Some(0), Some(1), Some(2)]);
                Command::SetCap { scope, limit, by }
            }
            13 if self.one_in(3) => Command::CancelRun { run, by, reason },
            13 | 14 => Command::Pause { run, by, reason },
            15 | 16 => Command::Unpause { run, by },
            17..=19 => self.budget_command(run, state),
            20 => Command::RequestReplan {
                run,
                trigger: self.trigger(),
                from: self.maybe(2, |_| step),
                reason,
            },
            21 | 22 => Command::WithdrawReplan { run, by, reason },
            _ => Command::Tick,
        }
    }

    fn budget_command(&mut self, run: RunId, state: &State) -> Command {
        let of = self.pick(&[Some(run), Some(run), Some(run), None]);
        let spent = match of.and_then(|run| state.runs.get(&run)) {
            Some(run) => run.account,
            None => state.account,
        };
        let mut more = |spent: u64| self.maybe(3, |rng| spent + u64::from(rng.below(30)));
        let limits = Limits {
            money_micros: more(spent.spent.money_micros),
            tokens: more(spent.spent.tokens),
            attempts: more(spent.attempts),
            wall_seconds: None,
        };
        let limits = self.pick(&[None, Some(limits), Some(limits)]);
        Command::SetBudget { run: of, limits, by: BY.to_owned() }
    }

    fn trigger(&mut self) -> ReplanTrigger {
        let by = BY.to_owned();
        self.pick(&[
            ReplanTrigger::ScopeChange { by: by.clone() },
            ReplanTrigger::NewEvidence { by },
            ReplanTrigger::BudgetExhausted,
        ])
    }

    fn start(&mut self, ledger: &TestLedger) -> Command {
        let runs = ledger.state.names.len();
        let taken = self.below(4);
        let name = if self.one_in(9) { format!("run-{taken}") } else { format!("run-{runs}") };
        Command::StartRun {
            name,
            policy: self.policy(),
            reason: String::new(),
            draft: draft(&self.plan()),
            inputs: BTreeMap::new(),
        }
    }

    fn fork(&mut self, ledger: &TestLedger, past: &Past) -> Command {
        let seqs: Vec<u64> = past.keys().copied().collect();
        if seqs.is_empty() {
            return Command::Tick;
        }
        let at_seq = self.pick(&seqs);
        let parent = Box::new(past[&at_seq].clone());
        let name = format!("fork-{}", ledger.state.seq);
        Command::ForkRun { name, parent, at_seq, chain: ContentHash([7; 32]), by: String::new() }
    }

    /// A new version, a small change of the active one, or the review of a proposed one.
    fn propose(&mut self, ledger: &TestLedger, run: RunId) -> Command {
        let known = ledger.state.runs.get(&run);
        let waiting =
            known.and_then(|run| run.versions.last()).filter(|each| each.review.is_none());
        if let (Some(known), Some(version)) = (known, waiting)
            && self.below(10) > 1
        {
            return Command::ReviewPlan {
                run,
                version: u32::try_from(known.versions.len()).unwrap(),
                hash: if self.one_in(10) { ContentHash::default() } else { version.hash },
                review: self.pick(&[Review::Approved, Review::Approved, Review::Rejected]),
                by: BY.to_owned(),
                note: String::new(),
            };
        }
        let plan = match known.and_then(Run::plan) {
            Some(active) if self.below(4) > 0 => self.varied(&active.decode()),
            _ => self.plan(),
        };
        let trigger = self.maybe(2, Self::trigger);
        Command::ProposePlan {
            run,
            draft: draft(&plan),
            reason: "better".to_owned(),
            trigger,
            approval: ApprovalPolicy::Automatic,
        }
    }

    fn answer(&mut self, state: &State) -> Command {
        let open: Vec<(QuestionId, RunId)> =
            state.questions.iter().map(|(question, run)| (*question, *run)).collect();
        let (question, run) = self.pick(&open);
        let asked = &state.runs[&run].questions[&question].asked;
        let answer = match self.below(10) {
            0 => "perhaps".to_owned(),
            1..=5 => asked.options[0].clone(),
            _ => self.pick(&asked.options),
        };
        let shown = if self.one_in(12) { ContentHash::default() } else { asked.shown };
        Command::Answer { question, answer, by: BY.to_owned(), note: String::new(), shown }
    }

    fn key(&mut self) -> String {
        format!("key-{}", self.below(3))
    }

    /// A token: mostly in flight, sometimes of an earlier attempt, sometimes unknown.
    fn token(&mut self, state: &State) -> AttemptToken {
        let in_flight: Vec<AttemptToken> = state.in_flight.keys().copied().collect();
        let dispatched: Vec<AttemptToken> = state.dispatched.keys().copied().collect();
        match self.below(20) {
            0 => AttemptToken(u64::from(self.below(300))),
            1..=3 if !dispatched.is_empty() => self.pick(&dispatched),
            _ if !in_flight.is_empty() => self.pick(&in_flight),
            _ if !dispatched.is_empty() => self.pick(&dispatched),
            _ => AttemptToken(0),
        }
    }

    fn reported_token(&mut self, state: &State) -> AttemptToken {
        let steps = state
            .runs
            .values()
            .flat_map(|run| run.reported.iter().filter_map(|number| run.step(*number)?.attempt()));
        let tokens: Vec<AttemptToken> = steps.map(|attempt| attempt.token).collect();
        if tokens.is_empty() { self.token(state) } else { self.pick(&tokens) }
    }

    fn unresolved_step(&mut self, state: &State, run: RunId) -> StepNumber {
        let found = state.runs.get(&run).and_then(|run| run.outcome_unknown.first().copied());
        found.unwrap_or_else(|| self.any_step(state, run))
    }

    fn failed_step(&mut self, state: &State, run: RunId) -> StepNumber {
        let found = state.runs.get(&run).and_then(|run| run.reported.first().copied());
        found.unwrap_or_else(|| self.any_step(state, run))
    }

    fn verdicts(&mut self) -> Vec<Verdict> {
        let one = |rng: &mut Self, n| {
            let ruling = if rng.one_in(8) { Ruling::Fail } else { Ruling::Pass };
            let by = rng.pick(&["ann", "ann", "ann", "worker-1"]);
            verdict(n, ruling, by)
        };
        match self.below(3) {
            0 => vec![one(self, 0), one(self, 1)],
            _ => vec![{
                let n = self.below(3);
                one(self, n)
            }],
        }
    }

    pub(super) fn receipt(&mut self) -> Receipt {
        let class = self.class();
        let mut receipt = match self.below(10) {
            0..=2 => {
                let message = self.pick(&["it broke", "too slow"]).to_owned();
                let outcome = Outcome::Failed { class, message, payload: Json::default() };
                let disposition = self.maybe(4, Self::disposition);
                Receipt { outcome, disposition, ..Receipt::default() }
            }
            3 if self.one_in(3) => Receipt {
                outcome: Outcome::ReplanRequested {
                    reason: "why not".to_owned(),
                    from: None,
                    kind: ReplanKind::Replan,
                },
                ..Receipt::default()
            },
            _ => Receipt {
                output: Json::from(serde_json::json!({ "v": self.below(6), "w": 1 })).into(),
                ..Receipt::default()
            },
        };
        let value = Json::from(serde_json::json!(self.below(6)));
        receipt.variables = self.maybe(4, |_| ("u".to_owned(), value)).into_iter().collect();
        receipt.side_effects = self.maybe(8, Self::key).into_iter().collect();
        receipt.cost = self.cost();
        receipt
    }
}
