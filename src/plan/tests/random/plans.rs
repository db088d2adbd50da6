//! Random plans that use every feature of the plan format.

use std::collections::{BTreeMap, BTreeSet};

use super::rng::TestRng;
use crate::plan::tests::support::*;
use crate::plan::*;

const VARIABLES: [&str; 3] = ["u", "v", "w"];

impl TestRng {
    pub(super) fn plan(&mut self) -> Plan {
        let ids: BTreeSet<String> =
            (0..=self.below(8)).map(|_| format!("s{}", self.below(14))).collect();
        let ids: Vec<String> = ids.into_iter().collect();
        let barriers: Vec<Barrier> = (0..self.below(3)).map(|n| self.barrier(n, &ids)).collect();
        let steps = (0..ids.len()).map(|place| self.step(&ids, place, &barriers)).collect();
        let mut plan = Plan { steps, barriers, ..Plan::default() };
        plan.title = format!("{}", self.below(1_000_000));
        plan.test_criteria = if self.one_in(3) { self.criteria(&VARIABLES) } else { Vec::new() };
        plan.continues = self.one_in(8);
        plan.extend_at = self.pick(&[None, Some(1), Some(2)]);
        plan.caps.run = self.pick(&[None, None, Some(1), Some(3)]);
        if self.one_in(2) {
            plan.caps.owners.insert("x".to_owned(), 1 + self.below(2));
        }
        if self.one_in(3) {
            plan.caps.tags.insert("gpu".to_owned(), 1 + self.below(2));
        }
        plan.budget = self.budget();
        plan.failure = self.failure_policy(&ids);
        plan.gate = self.maybe(14, |rng| rng.gate(&[YES, NO, ABORT]));
        plan.defaults.owner = self.pick(&[None, Some("y".to_owned())]);
        plan
    }

    fn budget(&mut self) -> Budget {
        let mut part = |sides, most| self.maybe(sides, |rng| u64::from(rng.below(most)));
        Budget {
            money_micros: part(7, 40),
            tokens: part(9, 20),
            attempts: part(9, 12),
            wall_seconds: part(9, 300),
        }
    }

    fn failure_policy(&mut self, ids: &[String]) -> FailurePolicy {
        let count = self.pick(&[0, 0, 1, 3]);
        FailurePolicy {
            on_stale: OnStale::default(),
            decider: self.pick(&[
                Decider::Rules,
                Decider::Rules,
                Decider::Rules,
                Decider::External,
            ]),
            rules: (0..count).map(|n| self.rule(n, ids)).collect(),
            max_replans: self.pick(&[None, None, Some(0), Some(1), Some(3)]),
        }
    }

    fn rule(&mut self, n: u32, ids: &[String]) -> FailureRule {
        let when = FailureMatch {
            class: self.maybe(3, Self::class),
            disposition: self.maybe(4, Self::disposition),
            step: self.maybe(5, |rng| rng.pick(ids)),
            owner: self.maybe(6, |_| "x".to_owned()),
            tag: self.maybe(8, |_| "gpu".to_owned()),
            message: self.maybe(6, |_| "slow".to_owned()),
            failures: self.maybe(4, |rng| 1 + rng.below(3)),
            failure_class: None,
            cel: self.maybe(6, |rng| {
                rng.pick(&["failure.number > 1", "output == null", "budget.tokens > 5"]).to_owned()
            }),
        };
        let then = match self.below(7) {
            0 | 1 => FailureAction::Retry,
            2 => FailureAction::Fallback,
            3 => FailureAction::Replan { from: self.maybe(2, |rng| rng.pick(ids)) },
            4 | 5 => FailureAction::Escalate {
                to: self.maybe(2, |_| "ann".to_owned()),
                deadline_seconds: self.maybe(2, |rng| u64::from(rng.below(20))),
                on_timeout: self.on_timeout(&[RETRY, SKIP, FAIL, "perhaps"]),
            },
            _ if self.one_in(3) => FailureAction::Abort,
            _ => FailureAction::Fail,
        };
        FailureRule { id: format!("rule-{n}"), when, then }
    }

    fn gate(&mut self, answers: &[&str]) -> Gate {
        Gate {
            question: format!("go {}?", self.below(2)),
            options: Vec::new(),
            to: self.maybe(2, |_| "ann".to_owned()),
            deadline_seconds: self.maybe(2, |rng| u64::from(rng.below(30))),
            on_timeout: self.on_timeout(answers),
        }
    }

    fn criteria(&mut self, names: &[&str]) -> Vec<Criterion> {
        let one = |rng: &mut Self| match rng.below(3) {
            0 => Criterion::Text("good".to_owned()),
            1 => Criterion::Command("true".to_owned()),
            _ => Criterion::Cel(rng.expression(names)),
        };
        (0..self.pick(&[0, 0, 0, 1, 2])).map(|_| one(self)).collect()
    }

    fn barrier(&mut self, n: u32, ids: &[String]) -> Barrier {
        let members: Vec<String> = (0..=self.below(4)).map(|_| self.pick(ids)).collect();
        let mut members: Vec<&str> = members.iter().map(String::as_str).collect();
        if self.one_in(40) {
            members.push("missing");
        }
        let some = BarrierNeeds::AtLeast(self.below(4));
        let needs = self.pick(&[BarrierNeeds::All, BarrierNeeds::Any, some]);
        Barrier {
            on_break: self.pick(&[OnBreak::Fail, OnBreak::Wait, OnBreak::Ask, OnBreak::Ask]),
            deadline_seconds: self.maybe(4, |rng| rng.below(90)),
            ..barrier(&format!("g{n}"), &members, needs)
        }
    }

    fn step(&mut self, ids: &[String], place: usize, barriers: &[Barrier]) -> Step {
        let after = self.after(ids, place, barriers);
        let after: Vec<&str> = after.iter().map(String::as_str).collect();
        // Workers report `v` and `w`, never `x`.
        let (outputs, optional): (&[&str], &[&str]) = self.pick(&[
            (&[], &[]),
            (&["v"], &[]),
            (&["v", "w"], &[]),
            (&["v", "w"], &[]),
            (&["v", "x"], &["x"]),
            (&["v", "x"], &[]),
        ]);
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        Step {
            goal: self.pick(&["one", "one", "one", "two"]).to_owned(),
            owner: self.pick(&[None, Some("x".to_owned()), Some("y".to_owned())]),
            priority: self.pick(&[0, 0, 1, -1]),
            tags: self
                .pick(&[vec![], vec![], vec!["gpu".to_owned()], vec!["gpu".into(), "db".into()]])
                .into(),
            inputs: self.pick(&[vec![], vec![], vec!["u".to_owned()], vec!["v".to_owned()]]),
            acceptance: self.criteria(&["u", "v", "output.v", "output.w"]),
            condition: self.maybe(14, |rng| rng.expression(&VARIABLES)),
            preconditions: match self.below(16) {
                0 => vec![self.expression(&VARIABLES)],
                1 => vec![self.expression(&VARIABLES), self.expression(&VARIABLES)],
                _ => Vec::new(),
            }
            .into(),
            on_false: self.pick(&[OnFalse::Wait, OnFalse::Wait, OnFalse::Fail, OnFalse::Skip]),
            outputs: names(outputs),
            optional_outputs: names(optional).into(),
            idempotent: self.pick(&[None, None, Some(Idempotence::No), Some(Idempotence::WithKey)]),
            lease_seconds: self.pick(&[None, Some(5)]),
            failure_hints: if self.one_in(4) {
                BTreeMap::from([("slow".to_owned(), FailureClass::Transient)]).into()
            } else {
                RareField::default()
            },
            retry: self.retry().map(Box::new),
            fallback: self.maybe(5, |rng| rng.fallback(ids).into()),
            cost_estimate: self.maybe(2, Self::cost),
            cost_limit: self.maybe(4, Self::cost),
            gate: self.maybe(8, |rng| rng.gate(&[YES, NO, SKIP, "perhaps"]).into()),
            ..step(&ids[place], &after)
        }
    }

    fn after(&mut self, ids: &[String], place: usize, barriers: &[Barrier]) -> Vec<String> {
        let mut after: Vec<String> = Vec::new();
        for _ in 0..self.below(3) {
            let earlier = &ids[..place];
            if earlier.is_empty() {
                continue;
            }
            let pool = if self.one_in(60) { ids } else { earlier };
            after.push(self.pick(pool));
        }
        if !barriers.is_empty() && self.one_in(3) {
            let waited = self.pick(barriers);
            // Rarely a cycle: a member seldom waits for its own barrier.
            if !waited.members.contains(&ids[place]) || self.one_in(10) {
                after.push(waited.id);
            }
        }
        if self.one_in(100) {
            after.push("missing".to_owned());
        }
        after
    }

    fn retry(&mut self) -> Option<RetryPolicy> {
        let policy = RetryPolicy {
            max_attempts: 1 + self.below(3),
            backoff_seconds: self.pick(&[0, 0, 3, 10]),
            backoff_percent: self.pick(&[None, Some(200), Some(50)]),
            backoff_max_seconds: self.pick(&[None, Some(12)]),
            jitter_percent: self.pick(&[None, Some(30), Some(900)]),
            per_class: match self.below(5) {
                0 => [("deterministic".to_owned(), 2)].into(),
                1 => [("transient".to_owned(), 4)].into(),
                _ => [].into(),
            },
        };
        (!self.one_in(5)).then_some(policy)
    }

    fn fallback(&mut self, ids: &[String]) -> Fallback {
        let max_age_seconds = self.pick(&[None, None, Some(10)]);
        match self.below(5) {
            0 | 1 => Fallback::Step(self.pick(ids)),
            2 => Fallback::Owner(self.pick(&["x", "z"]).to_owned()),
            3 => Fallback::Value { value: serde_json::json!({"v": 3}), max_age_seconds },
            _ => Fallback::Variable { name: self.pick(&VARIABLES).to_owned(), max_age_seconds },
        }
    }

    /// A plan with one step changed or removed.
    pub(super) fn varied(&mut self, plan: &Plan) -> Plan {
        let mut next = plan.clone();
        let Some(last) = next.steps.len().checked_sub(1) else { return self.plan() };
        let place = self.below(u32::try_from(last + 1).unwrap());
        let place = usize::try_from(place).unwrap();
        let ids: Vec<String> = next.steps.iter().map(|step| step.id.clone()).collect();
        match self.below(8) {
            0 => drop(next.steps.remove(place)),
            1 => next.steps[place].gate = self.maybe(2, |rng| rng.gate(&[YES, NO, SKIP]).into()),
            2 => next.steps[place].preconditions = vec![self.expression(&VARIABLES)].into(),
            3 => next.steps[place].fallback = self.maybe(2, |rng| rng.fallback(&ids).into()),
            4 => drop(next.barriers.pop()),
            5 => next.failure = self.failure_policy(&ids),
            _ => next.steps[place].goal = format!("goal {}", self.below(3)),
        }
        next.title = format!("{}", self.below(1_000_000));
        next
    }
}
