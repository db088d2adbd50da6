//! The random numbers of the tests, the same on every machine.

use crate::plan::{ApprovalPolicy, Disposition, OnFailure, TextPolicy};
use crate::plan::{Cost, FailureClass, OnTimeout, RunPolicy};

/// The `SplitMix64` generator.
pub(super) struct TestRng(pub(super) u64);

impl TestRng {
    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `sides`.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next_u64() % u64::from(bound.max(1))).unwrap()
    }

    pub(super) fn one_in(&mut self, bound: u32) -> bool {
        self.below(bound) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        let index = self.below(u32::try_from(of.len()).unwrap());
        of[usize::try_from(index).unwrap()].clone()
    }

    /// The value with a probability of one in `sides`.
    pub(super) fn maybe<T>(&mut self, bound: u32, make: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.one_in(bound).then(|| make(self))
    }

    pub(super) fn policy(&mut self) -> RunPolicy {
        RunPolicy {
            approval: self.pick(&[
                ApprovalPolicy::Automatic,
                ApprovalPolicy::Automatic,
                ApprovalPolicy::Automatic,
                ApprovalPolicy::Required,
            ]),
            text: self.pick(&[TextPolicy::Judge, TextPolicy::Trust]),
            on_failure: self.pick(&[OnFailure::Continue, OnFailure::Continue, OnFailure::FailFast]),
        }
    }

    pub(super) fn class(&mut self) -> FailureClass {
        self.pick(&[
            FailureClass::Transient,
            FailureClass::Transient,
            FailureClass::Unknown,
            FailureClass::Unknown,
            FailureClass::Deterministic,
            FailureClass::AssumptionBroken,
            FailureClass::BudgetExhausted,
        ])
    }

    pub(super) fn disposition(&mut self) -> Disposition {
        self.pick(&[Disposition::DidNotHappen, Disposition::Unknown, Disposition::Landed])
    }

    pub(super) fn cost(&mut self) -> Cost {
        Cost { money_micros: u64::from(self.below(6)), tokens: u64::from(self.below(3)) }
    }

    pub(super) fn on_timeout(&mut self, answers: &[&str]) -> Option<OnTimeout> {
        let answer = OnTimeout::Answer(self.pick(answers).to_owned());
        let escalate = OnTimeout::EscalateTo("boss".to_owned());
        self.pick(&[
            None,
            Some(escalate),
            Some(answer.clone()),
            Some(answer),
            Some(OnTimeout::Abort),
        ])
    }

    /// A comparison of a variable with a number, which the reference model can judge as well.
    pub(super) fn expression(&mut self, names: &[&str]) -> String {
        let (name, op) = (self.pick(names), self.pick(&["<", ">=", "=="]));
        format!("{name} {op} {}", self.below(5))
    }
}
