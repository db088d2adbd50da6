//! Random histories: after every command the invariants hold, the reference model agrees, and the
//! log folds into the same state.

use std::collections::BTreeMap;

use super::commands::{Past, Workload};
use super::reference::Reference;
use super::rng::TestRng;
use crate::ledger::{Projection, state_hash};
use crate::plan::tests::invariants;
use crate::plan::tests::support::*;
use crate::plan::*;
use crate::sim::sweep;

/// The number of histories that reach everything that they are to test.
const HISTORIES: u64 = 600;

/// The events that the histories must reach.
const REACHED: &str = "dispatched, lost, refused, fallback accepted, value, accepted, retry, retry later, fail, fallback, \
    replan, escalate, abort, outcome_unknown, skipped, resolved, judged, elapsed, asked, answered, \
    expired, effect, corrected, failed without attempt, released, broken, late, overruled, \
    replanned, done, run failed, cancelled, aborted, reopened, paused, resumed, run asked, \
    run answered, run expired, requested, withdrawn, forked, retired";

/// One history with its ledger, its reference model and earlier runs for forks.
pub(super) struct History {
    pub(super) rng: TestRng,
    workload: Workload,
    pub(super) ledger: TestLedger,
    past: Past,
    reference: Reference,
}

impl History {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = TestRng(seed);
        let workload = if rng.one_in(250) { Workload::ManyRuns } else { Workload::FewRuns };
        let (ledger, reference) = (TestLedger::new(), Reference::default());
        Self { rng, workload, ledger, past: Past::new(), reference }
    }

    pub(super) fn commands(&mut self) -> u32 {
        match self.workload {
            Workload::FewRuns => 30 + self.rng.below(40),
            Workload::ManyRuns => 400,
        }
    }

    pub(super) fn step(&mut self) {
        // Mostly a little later, sometimes much later, and sometimes the clock jumps back.
        self.ledger.now = match self.rng.below(40) {
            0 => self.ledger.now.saturating_sub(50 * SECOND),
            1 => self.ledger.now + 100 * SECOND,
            2..=6 => self.ledger.now + u64::from(self.rng.below(12)) * SECOND,
            _ => self.ledger.now + u64::from(self.rng.below(2)) * SECOND,
        };
        let command = self.rng.command(self.workload, &self.ledger, &self.past);
        let before = self.rng.one_in(16).then(|| format!("{:?}", self.ledger.state));
        let first = self.ledger.state.seq + 1;
        if let Ok(events) = self.ledger.execute(command) {
            assert!(events.len() < 300, "settling does not end: {}", kinds(&events));
            self.reference.check_batch(&self.ledger.state, first, &events);
        } else {
            let after = before.as_ref().map(|_| format!("{:?}", self.ledger.state));
            assert_eq!(before, after, "a rejected command changes nothing");
        }
        invariants::check(&self.ledger.state);
    }

    fn remember(&mut self) {
        let runs: Vec<&Run> = self.ledger.state.runs.values().collect();
        if !runs.is_empty() {
            let run = self.rng.pick(&runs).clone();
            self.past.insert(self.ledger.state.seq, run);
        }
    }

    /// Restarts from a snapshot or by folding the log.
    fn crash(&mut self) {
        let live = state_hash(&self.ledger.state);
        self.ledger.state = if self.rng.one_in(2) {
            let mut bytes = Vec::new();
            self.ledger.state.encode(&mut bytes).unwrap();
            let state = State::decode(&mut &bytes[..]).unwrap();
            let mut again = Vec::new();
            state.encode(&mut again).unwrap();
            assert_eq!(again, bytes, "an unread snapshot changes nothing");
            state
        } else {
            let mut folded = State::default();
            self.ledger.log.iter().for_each(|(seq, time, event)| folded.apply(*seq, *time, event));
            folded
        };
        assert_eq!(state_hash(&self.ledger.state), live, "replay is exact");
    }
}

fn run_history(seed: u64) -> BTreeMap<&'static str, u32> {
    let mut history = History::new(seed);
    for _ in 0..history.commands() {
        history.step();
        if history.rng.one_in(12) {
            history.remember();
        }
        if history.rng.one_in(20) {
            history.crash();
        }
    }
    history.crash();
    if history.workload == Workload::ManyRuns {
        *history.reference.seen.entry("retired").or_default() +=
            u32::from(!history.ledger.state.summaries.is_empty());
    }
    apply_in_any_order(&mut history.rng, &history.ledger.log);
    history.reference.seen
}

/// No order of events makes `apply`, or anything that depends on it, panic.
fn apply_in_any_order(rng: &mut TestRng, log: &[(u64, Timestamp, Event)]) {
    let mut state = State::default();
    for _ in 0..log.len() {
        let (seq, time, event) = rng.pick(log);
        state.apply(seq, time, &event);
    }
    for (seq, time, event) in log {
        if !rng.one_in(10) {
            state.apply(*seq, *time, event);
        }
    }
    let seq = state.seq + 1;
    let _ = execute(&mut state, seq, u64::MAX, &Command::Tick);
    for run in state.runs.keys() {
        let _ = settle(&state, *run, &mut Evaluator::default());
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn run_all(seeds: impl Iterator<Item = u64>) -> BTreeMap<&'static str, u32> {
    let mut reached = BTreeMap::new();
    for seed in seeds {
        let played = std::panic::catch_unwind(|| run_history(seed));
        let Ok(of_history) = played else { panic!("seed {seed}") };
        for (what, count) in of_history {
            *reached.entry(what).or_default() += count;
        }
    }
    reached
}

/// `HISTORIES=100000 cargo test --release --lib random_commands` runs that many histories. `SEED`
/// is the first one, so that a failed history can be repeated alone.
#[test]
fn sweep_random_commands_keep_every_invariant() {
    let (seed, histories) = (number("SEED", 0), number("HISTORIES", sweep(60, HISTORIES, 100_000)));
    let seeds = seed..seed.saturating_add(histories);
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let reached: BTreeMap<&str, u32> = std::thread::scope(|scope| {
        let part = |first: usize| seeds.clone().skip(first).step_by(threads);
        let threads: Vec<_> =
            (0..threads).map(|first| scope.spawn(move || run_all(part(first)))).collect();
        let played = threads.into_iter().flat_map(|thread| thread.join().unwrap());
        played.fold(BTreeMap::new(), |mut all, (what, count)| {
            *all.entry(what).or_default() += count;
            all
        })
    });
    if histories < HISTORIES {
        return;
    }
    // The histories must reach every listed situation.
    for what in REACHED.split(", ") {
        assert!(reached.contains_key(what), "{what} never reached: {reached:?}");
    }
}

/// Seed 104819: a failed step was retried in a run about to be aborted, and the reference model
/// took the abort as the final decision about an attempt that had landed.
#[test]
fn seed_104819_is_replayed() {
    run_history(104_819);
}

#[test]
fn sweep_large_plan_does_not_slow_down_a_step() {
    let count = sweep(20_000, 100_000, 100_000);
    let members: Vec<String> = (0..count).map(|n| format!("s{n}")).collect();
    let mut steps: Vec<Step> = members.iter().map(|id| step(id, &[])).collect();
    steps.push(step("end", &["all"]));
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let all = barrier("all", &members, BarrierNeeds::All);
    let large = Plan { barriers: vec![all], ..plan(steps) };
    let mut ledger = TestLedger::with(&large, trust());
    for _ in 0..=count {
        let events = ledger.execute(dispatch_command(None)).unwrap();
        assert_eq!(events.len(), 1);
        let token = AttemptToken(ledger.state.seq);
        ledger.report(token, Receipt::default());
    }
    assert_eq!(ledger.run().status, RunStatus::Ended(Ending::Done));
}
