//! Finds the reasons of one step in the state.

use super::context::{Context, active_attempt};
use super::reason::{BlockReason, BlockingAttempt, BlockingBarrier, ProposedVersion};
use crate::plan::event::question::{Question, QuestionId};
use crate::plan::event::step_event::Ruling;
use crate::plan::event::step_status::StepStatus;
use crate::plan::explain::limits;
use crate::plan::model::policy::Decider;
use crate::plan::settle::opening::writers_left;
use crate::plan::settle::reported::unjudged_criteria;
use crate::plan::state::barrier_state::BarrierStatus;
use crate::plan::state::links::Dependency;
use crate::plan::state::run::{PlanVersion, ReplanRequest, RunStatus};
use crate::plan::state::step_state::StepState;
use crate::plan::value::expression;
use crate::plan::value::ids::StepNumber;

impl Context<'_> {
    /// The reasons that block the whole run, and the request, caps and budgets that block this step.
    pub(super) fn run_reasons(&self, number: StepNumber) -> Vec<BlockReason> {
        let run = self.run;
        match run.status {
            RunStatus::Ended(ending) => return vec![BlockReason::RunEnded { ending }],
            RunStatus::Proposed => {
                let open = run.versions.iter().zip(1..).filter(|(each, _)| each.review.is_none());
                let version = |(each, version): (&PlanVersion, u32)| ProposedVersion {
                    version,
                    hash: each.hash,
                };
                let proposed = open.map(version).collect();
                return vec![BlockReason::NoActivePlan { proposed }];
            }
            RunStatus::Running => {}
        }
        let mut reasons: Vec<BlockReason> =
            run.pause.iter().cloned().map(|cause| BlockReason::Paused { cause }).collect();
        reasons.extend(run.why_stopping().map(|why| BlockReason::Stopping { why: why.into() }));
        if run.step(number).is_some_and(|step| step.status.is_open()) {
            let hold = run.replan_hold().filter(|hold| hold.holds(number));
            reasons.extend(hold.map(|hold| {
                let ReplanRequest { seq, from, reason, .. } = hold.request();
                BlockReason::Replan { request: *seq, from: *from, reason: reason.to_string() }
            }));
            reasons.extend(limits::reached(self, number));
        }
        reasons
    }

    /// The reasons that block this step, except those of the whole run.
    pub(super) fn step_reasons(&self, number: StepNumber, step: &StepState) -> Vec<BlockReason> {
        match step.status {
            StepStatus::Accepted | StepStatus::Skipped => Vec::new(),
            StepStatus::Removed => vec![BlockReason::Removed],
            StepStatus::Cancelled => vec![BlockReason::Cancelled],
            StepStatus::Failed => {
                vec![BlockReason::Failed { failure: step.last_failure().cloned() }]
            }
            StepStatus::Dispatched => self
                .active_attempt(number)
                .map(|attempt| BlockReason::Dispatched { attempt })
                .into_iter()
                .collect(),
            StepStatus::OutcomeUnknown => self
                .active_attempt(number)
                .map(|attempt| BlockReason::OutcomeUnknown { attempt })
                .into_iter()
                .collect(),
            StepStatus::Reported => self.reported_reasons(number, step),
            StepStatus::Waiting | StepStatus::Ready | StepStatus::Gated | StepStatus::Delayed => {
                self.open_step_reasons(number, step)
            }
        }
    }

    fn open_step_reasons(&self, number: StepNumber, step: &StepState) -> Vec<BlockReason> {
        let mut reasons = Vec::new();
        if step.hold().is_standby {
            let steps = self.run.links.fallback_for(number).to_vec();
            reasons.push(BlockReason::FallbackFor { steps });
        }
        reasons.extend(step.hold().fallback_step.map(|step| BlockReason::Fallback { step }));
        let waiting = self.run.unmet_dependencies(number);
        reasons.extend(waiting.into_iter().map(|dependency| self.dependency_reason(dependency)));
        if step.unmet == 0 {
            reasons.extend(self.condition_reasons(number, step));
        }
        reasons.extend(self.gate_reason(number, step));
        reasons.extend(step.hold().delay.map(|until| {
            let after = step.last_failure().map(|(_, message)| message.clone());
            BlockReason::Delay { until, after: after.unwrap_or_default().into() }
        }));
        reasons
    }

    fn dependency_reason(&self, dependency: Dependency) -> BlockReason {
        match dependency {
            Dependency::Step(number) => {
                let found = self.run.step(number);
                BlockReason::Step {
                    step: number,
                    id: found.map(|step| step.id().to_owned()).unwrap_or_default(),
                    status: found.map_or(StepStatus::Removed, |step| step.status),
                }
            }
            Dependency::Barrier(id) => self.barrier_reason(id),
            Dependency::Unknown(name) => BlockReason::Unknown { name },
        }
    }

    fn barrier_reason(&self, id: String) -> BlockReason {
        let Some(barrier) = self.run.barriers.get(&id) else {
            return BlockReason::Unknown { name: id };
        };
        let is_missing = |member: &&StepNumber| {
            !barrier.arrived.contains(member) && !barrier.failed.contains(member)
        };
        let barrier = Box::new(BlockingBarrier {
            id,
            status: barrier.status,
            needed: barrier.needed,
            arrived: barrier.arrived.clone(),
            missing: barrier.members.iter().filter(is_missing).copied().collect(),
            failed: barrier.failed.clone(),
            deadline: barrier.deadline.filter(|_| barrier.status == BarrierStatus::Closed),
            is_late: barrier.is_late,
            question: barrier.question,
        });
        BlockReason::Barrier { barrier }
    }

    fn condition_reasons(&self, number: StepNumber, step: &StepState) -> Vec<BlockReason> {
        let Some(plan) = self.run.plan_step(number) else { return Vec::new() };
        let mut reasons = Vec::new();
        let ruling = step.hold().condition;
        if let Some(expression) = plan.condition()
            && ruling != Some(Ruling::Pass)
        {
            let expression = expression.to_owned();
            reasons.push(BlockReason::Condition { expression, ruling });
        }
        for (index, expression) in (0..).zip(plan.preconditions()) {
            let ruling = step.hold().preconditions.get(&index).copied();
            if ruling != Some(Ruling::Pass) {
                reasons.push(BlockReason::Precondition {
                    index,
                    expression: expression.to_owned(),
                    ruling,
                    variables: expression::variables(expression),
                    writers: writers_left(self.run, number, index),
                });
            }
        }
        reasons
    }

    fn gate_reason(&self, number: StepNumber, step: &StepState) -> Option<BlockReason> {
        let question = step.hold().question.and_then(|id| Some((id, self.run.questions.get(&id)?)));
        match question {
            Some((id, question)) => Some(question_reason(id, question)),
            None if step.status == StepStatus::Gated => Some(BlockReason::Gate),
            None => {
                let has_gate = self.run.needs_approval(number);
                (has_gate && !step.hold().is_gate_open).then_some(BlockReason::Gate)
            }
        }
    }

    fn reported_reasons(&self, number: StepNumber, step: &StepState) -> Vec<BlockReason> {
        let Some(attempt) = step.attempt() else { return Vec::new() };
        let is_external =
            self.run.plan().is_some_and(|plan| plan.header().failure.decider == Decider::External);
        let undecided = self.run.failure_of(number).filter(|_| is_external);
        let unjudged = match undecided {
            Some(_) => Vec::new(),
            None => unjudged_criteria(self.run, number),
        };
        vec![BlockReason::Reported { token: attempt.token, unjudged, undecided }]
    }

    fn active_attempt(&self, number: StepNumber) -> Option<BlockingAttempt> {
        active_attempt(self.run, number)
    }
}

fn question_reason(id: QuestionId, question: &Question) -> BlockReason {
    BlockReason::Question {
        question: id,
        subject: question.asked.subject.clone(),
        text: question.asked.text.to_string(),
        to: question.asked.to.clone(),
        deadline: question.asked.deadline,
        options: question.asked.options.clone(),
    }
}
