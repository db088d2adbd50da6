//! Evaluations of expressions are bounded by a budget for each commit. What it does not cover is
//! evaluated by later commits, and a claim waits for it.

use std::path::Path;
use std::sync::Arc;

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::plan::StepEvent;
use plan_ledger::{
    Claim, Environment, Event, Json, Ledger, LedgerView, Plan, Receipt, RunId, RunPolicy, State,
    Step, StepStatus, state_hash,
};
use plan_ledger_cli::requests::{ClaimRequest, ReceiptRequest, Request};
use plan_ledger_cli::server::{SOCKET_NAME, while_serving};
use serde_json::json;

use super::golden::deterministic;
use super::socket::requested;

/// How many conditions the plan has: more than two commits evaluate.
const CONDITIONS: usize = 12;

/// A step, and steps whose conditions read one long list once it is done.
fn plan() -> Plan {
    let condition = |number: usize| Step {
        id: format!("s{number}"),
        after: vec!["first".to_owned()],
        condition: Some(format!("items.all(x, x >= 0) && {number} >= 0")),
        ..Step::default()
    };
    let mut steps = vec![Step { id: "first".to_owned(), ..Step::default() }];
    steps.extend((0..CONDITIONS).map(condition));
    Plan { steps, ..Plan::default() }
}

fn on_disk(disk: &SimDisk) -> Environment {
    Environment { storage: Arc::new(disk.clone()), ..deterministic() }
}

const DIR: &str = "a.ledger";

/// A ledger with a run of that plan, whose first step is dispatched.
fn started(disk: &SimDisk) -> (Ledger, RunId, plan_ledger::plan::Token) {
    let ledger = Ledger::create(Path::new(DIR), &on_disk(disk)).unwrap();
    let run = ledger.start_run("r", &plan(), RunPolicy::default()).unwrap();
    let items: Vec<usize> = (0..40_000).collect();
    ledger.set_variable(run, "items", Json::new(&json!(items)), None, "me").unwrap();
    let token = ledger.dispatch(run, "w").unwrap().unwrap().token;
    (ledger, run, token)
}

/// How many conditions are evaluated in each batch of the log.
fn evaluated_by_batch(disk: &SimDisk) -> Vec<usize> {
    let view = LedgerView::open(Path::new(DIR), &on_disk(disk)).unwrap();
    let (mut batches, mut count) = (Vec::new(), 0);
    for record in view.log().records(1) {
        let record = record.unwrap();
        if let Some(Event::Step(event)) = plan_ledger::internals::ledger::decode(&record).unwrap() {
            count += usize::from(matches!(event.event, StepEvent::ConditionJudged(_)));
        }
        if record.batch_left == 0 && count > 0 {
            batches.push(std::mem::take(&mut count));
        }
    }
    batches
}

/// Goal: the state is the same live, folded, and from a snapshot, between any two of the commits.
#[test]
fn backlog_of_evaluations_survives_a_restart() {
    let disk = SimDisk::new();
    let (ledger, run, token) = started(&disk);
    let status = ledger.record_receipt(token, Receipt::default()).unwrap();
    assert_eq!(status, StepStatus::Accepted);
    assert!(ledger.has_backlog().unwrap());
    let live = ledger.state_hash().unwrap();
    let seq = ledger.head().seq;
    assert_eq!(state_hash(&ledger.state_at(seq).unwrap()), live);
    drop(ledger);
    let (ledger, _) = Ledger::open_with(Path::new(DIR), &on_disk(&disk)).unwrap();
    assert_eq!(ledger.state_hash().unwrap(), live);
    assert!(ledger.has_backlog().unwrap());
    ledger.snapshot::<State>().unwrap();
    // The note about the snapshot is a record, too.
    let live = ledger.state_hash().unwrap();
    drop(ledger);
    let (ledger, _) = Ledger::open_with(Path::new(DIR), &on_disk(&disk)).unwrap();
    assert_eq!(ledger.state_hash().unwrap(), live);
    // The run is packed in the snapshot: the claim unpacks it, and settles it first.
    let Claim::Task(task) = ledger.claim(run, "w").unwrap() else { panic!("a step is ready") };
    assert_eq!(task.step.id, "s0");
    assert!(!ledger.has_backlog().unwrap());
    let ready = u32::try_from(CONDITIONS).unwrap() - 1;
    assert_eq!(ledger.state().unwrap().runs[&run].count(StepStatus::Ready), ready);
    let seq = ledger.head().seq;
    assert_eq!(state_hash(&ledger.state_at(seq).unwrap()), ledger.state_hash().unwrap());
    let batches = evaluated_by_batch(&disk);
    assert_eq!(batches.iter().sum::<usize>(), CONDITIONS, "{batches:?}");
    assert!(batches.len() > 2 && batches.iter().all(|count| *count < 6), "{batches:?}");
}

/// Goal: in the event loop of a server, a receipt leaves the evaluations to other commits, and the
/// next claim waits for them instead of an answer that nothing is ready.
#[test]
fn claim_through_the_socket_waits_for_the_evaluations() {
    let disk = SimDisk::new();
    let (ledger, _, token) = started(&disk);
    let folder = tempfile::tempdir().unwrap();
    let (socket, complain) = (folder.path().join(SOCKET_NAME), |text: &str| panic!("{text}"));
    while_serving(&ledger, folder.path(), complain, || {
        let receipt = serde_json::from_value(
            json!({ "token": token, "receipt": { "outcome": "succeeded" } }),
        );
        let receipt: ReceiptRequest = receipt.unwrap();
        let answer = requested(&socket, &Request::from(receipt));
        assert_eq!(answer.code, 0, "{answer:?}");
        assert!(ledger.has_backlog().unwrap(), "the event loop evaluates less than a commit");
        let claim = ClaimRequest {
            worker: "w".to_owned(),
            ..ClaimRequest::new(plan_ledger::plan::Secret([7; 16]))
        };
        let answer = requested(&socket, &Request::from(claim));
        assert_eq!(answer.lines[0]["type"], "task", "{answer:?}");
    });
    let batches = evaluated_by_batch(&disk);
    assert_eq!(batches.iter().sum::<usize>(), CONDITIONS, "{batches:?}");
    assert!(batches.iter().all(|count| *count < 6), "{batches:?}");
}
