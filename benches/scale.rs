//! The same work in a small and in a large ledger, to show what grows with the ledger: a dispatch and a
//! receipt, and a state taken while an older one is still held.
//!
//! Run with `cargo bench --bench scale`. Only the last group uses a disk.

use std::collections::BTreeMap;
use std::sync::Arc;

use criterion::{BatchSize, BenchmarkId, Criterion, criterion_group, criterion_main};
use plan_ledger::internals::ledger::plan_draft;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::{Proof, Route, SecretHash, execute};
use plan_ledger::{
    AttemptToken, Command, Environment, Ledger, Plan, Receipt, RunId, RunPolicy, State, Step,
};

/// Steps of one measurement.
const WORKED: usize = 100;

fn step(number: usize) -> Step {
    Step {
        id: format!("s{number}"),
        owner: Some(format!("o{}", number % 8)),
        outputs: vec![format!("v{number}")],
        ..Step::default()
    }
}

fn plan(steps: usize) -> Plan {
    Plan { steps: (0..steps).map(step).collect(), ..Plan::default() }
}

fn ask(state: &mut State, command: &Command) {
    let next = state.seq + 1;
    execute(state, next, 1, command).expect("what is not refused");
}

fn state(runs: usize, steps: usize) -> State {
    let mut state = State::default();
    let draft = plan_draft(&plan(steps)).expect("a valid plan");
    for number in 0..runs {
        let (name, policy) = (format!("run{number}"), RunPolicy::default());
        ask(
            &mut state,
            &Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft: draft.clone(),
                inputs: BTreeMap::new(),
            },
        );
    }
    state
}

fn work(state: &mut State) {
    for _ in 0..WORKED {
        let (token, receipt) = (dispatch_next(state), Receipt::default());
        ask(state, &Command::RecordReceipt { proof: Proof::LockHolder, token, receipt });
    }
}

fn in_memory(c: &mut Criterion) {
    let mut group = c.benchmark_group("dispatch_and_receipt_100_times");
    group.sample_size(20);
    for (runs, steps) in [(1, 1_000), (1, 100_000), (1_000, 200)] {
        let state = state(runs, steps);
        let name = format!("{runs}_runs_{steps}_steps");
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| state.clone(), work, BatchSize::PerIteration);
        });
    }
    group.finish();
}

/// A receipt that makes ten steps ready, in plans of several sizes. The first receipt is not measured:
/// the state was just copied and is not in the CPU caches.
fn ready_set(c: &mut Criterion) {
    let mut group = c.benchmark_group("receipt_that_makes_ten_ready");
    group.sample_size(20);
    for steps in [1_000, 10_000, 100_000] {
        let after_head = |number: usize| match number % 11 {
            0 => step(number),
            place => Step { after: vec![format!("s{}", number - place)], ..step(number) },
        };
        let plan = Plan { steps: (0..steps).map(after_head).collect(), ..Plan::default() };
        let draft = plan_draft(&plan).expect("a valid plan");
        let (name, policy) = ("run".to_owned(), RunPolicy::default());
        let mut state = State::default();
        ask(
            &mut state,
            &Command::StartRun {
                name,
                policy,
                reason: String::new(),
                draft,
                inputs: BTreeMap::new(),
            },
        );
        group.bench_function(BenchmarkId::from_parameter(steps), |b| {
            b.iter_batched_ref(
                || at_second_head(state.clone()),
                |(state, command)| ask(state, command),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

/// A state in which the first head is done, its ten steps and the second head are dispatched, and the
/// command that reports the second head.
fn at_second_head(mut state: State) -> (State, Command) {
    let report = |token| Command::RecordReceipt {
        proof: Proof::LockHolder,
        token,
        receipt: Receipt::default(),
    };
    let first = dispatch_next(&mut state);
    ask(&mut state, &report(first));
    (0..10).for_each(|_| _ = dispatch_next(&mut state));
    let second = dispatch_next(&mut state);
    (state, report(second))
}

/// Dispatch the next step. Returns the token of the attempt.
fn dispatch_next(state: &mut State) -> AttemptToken {
    ask(
        state,
        &Command::Dispatch {
            process: None,
            secret: SecretHash::default(),
            run: RunId(1),
            step: None,
            worker: "w".to_owned(),
            route: Route::default(),
            lease: None,
        },
    );
    AttemptToken(state.seq)
}

/// Checking and hashing a plan, and starting a run of it: plans without dependencies, and plans in which
/// each step of a second layer depends on each step of the first.
fn start(c: &mut Criterion) {
    let mut group = c.benchmark_group("start_of_a_run");
    group.sample_size(10);
    let first_layer = |width: usize| (0..width).map(|number| format!("s{number}"));
    let layered = |width: usize| {
        let second = |number: usize| Step { after: first_layer(width).collect(), ..step(number) };
        let steps = (0..width).map(step).chain((width..2 * width).map(second));
        Plan { steps: steps.collect(), ..Plan::default() }
    };
    let plans = [1_000, 10_000, 100_000].map(|steps| (format!("{steps}_steps"), plan(steps)));
    let layers =
        [100, 300, 900].map(|width| (format!("{}_dependencies", width * width), layered(width)));
    for (name, plan) in plans.into_iter().chain(layers) {
        group.bench_function(name, |b| {
            b.iter(|| {
                let (name, policy) = ("run".to_owned(), RunPolicy::default());
                let draft = plan_draft(&plan).expect("a valid plan");
                let (reason, inputs) = (String::new(), BTreeMap::new());
                let mut state = State::default();
                ask(&mut state, &Command::StartRun { name, policy, reason, draft, inputs });
                state.seq
            });
        });
    }
    group.finish();
}

/// Holding a state while commands continue must not cause a copy of the whole state.
fn held(c: &mut Criterion) {
    let mut group = c.benchmark_group("take_state_while_one_is_held");
    group.sample_size(10);
    for steps in [1_000, 100_000] {
        let disk = SimDisk::new();
        let environment = Environment { storage: Arc::new(disk), ..Environment::system() };
        let ledger = Ledger::create("scale.ledger".as_ref(), &environment).expect("a new ledger");
        let run = ledger.start_run("one", &plan(steps), RunPolicy::default()).expect("a plan");
        group.bench_function(BenchmarkId::from_parameter(steps), |b| {
            let mut held = ledger.state().expect("a state");
            b.iter(|| {
                // Dispatch and release, so that the plan never ends.
                let task = ledger.dispatch(run, "w").expect("a dispatch").expect("a step");
                held = ledger.state().expect("a state");
                let cause = plan_ledger::LostCause::Released;
                ledger.report_lost(task.token, cause, "").expect("a loss");
                held.seq
            });
        });
    }
    group.finish();
}

criterion_group!(benches, in_memory, ready_set, start, held);
criterion_main!(benches);
