//! Views beside a prune: it removes files that a view has listed and not opened yet, and no view ends with an error
//! because of it.

use std::sync::atomic::{AtomicBool, Ordering};

use plan_ledger::internals::ledger::RetentionLimit;
use plan_ledger::{Environment, Json, Ledger, RunPolicy, State};

use super::blobs::{large, plan};
use super::command::{Place, start};
use super::inspect::SetOnDrop;
use super::system_calls::shim;

/// The views, for the ledger in `x.ledger`.
const VIEWS: [&str; 9] = [
    "inspect x.ledger",
    "inspect x.ledger records",
    "inspect x.ledger records --run r",
    "inspect x.ledger runs",
    "inspect x.ledger timeline r",
    "status x.ledger",
    "questions --ledger x.ledger",
    "next --ledger x.ledger",
    "prime --ledger x.ledger",
];

/// Goal: a file that is gone when a view opens it restarts the view, of which nothing was printed.
/// Method: the n-th segment that the program opens is gone, once.
#[test]
fn segment_that_is_gone_restarts_a_view() {
    let place = Place::new();
    let Some(library) = shim(&place, "unreliable") else { return };
    let dir = place.path("x.ledger");
    let ledger = Ledger::create(&dir, &Environment::system()).unwrap();
    let run = ledger.start_run("r", &plan(4), RunPolicy::default()).unwrap();
    for number in 0..4 {
        ledger.set_variable(run, "large", large(number, 600_000), None, "me").unwrap();
    }
    ledger.close().unwrap();
    for view in VIEWS {
        let undisturbed = place.ledger(view);
        let before = place.read("injected").len();
        for nth in 1..=10 {
            let mut command = place.command(&view.split(' ').collect::<Vec<_>>());
            command.env("LD_PRELOAD", &library).env("UNRELIABLE_LOG", place.path("injected"));
            command.env("UNRELIABLE_CALL", "open").env("UNRELIABLE_HOW", "gone");
            let ended = start(command.env("UNRELIABLE_NTH", nth.to_string())).end();
            assert_eq!(ended.status.code(), undisturbed.status.code(), "{view}, {nth}: {ended:?}");
            let lines = |out: &str| out.lines().count();
            assert_eq!(lines(&ended.out), lines(&undisturbed.out), "{view}, {nth}: {ended:?}");
        }
        assert!(place.read("injected").len() > before, "{view} opened no segment");
    }
}

/// Goal: the same beside real prunes, which remove many segments.
#[test]
fn views_beside_real_prunes_end_without_an_error() {
    let place = Place::new();
    let dir = place.path("x.ledger");
    let environment = Environment { snapshot_every: None, ..Environment::system() };
    let ledger = Ledger::create(&dir, &environment).unwrap();
    let run = ledger.start_run("r", &plan(4), RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    let is_over = AtomicBool::new(false);
    let mut looks = 0;
    std::thread::scope(|scope| {
        let pruning = scope.spawn(|| {
            let _is_over = SetOnDrop(&is_over);
            let mut pruned = 0;
            for _ in 0..8 {
                let (ledger, _) = Ledger::open_with(&dir, &environment).unwrap();
                for _ in 0..4 {
                    let value = Json::new(&"x".repeat(900_000).into());
                    ledger.set_variable(run, "large", value, None, "ann").unwrap();
                }
                ledger.snapshot::<State>().unwrap();
                let limit = RetentionLimit::Record(u64::MAX);
                pruned += usize::from(ledger.prune(limit, None, "ann").is_ok());
                ledger.close().unwrap();
            }
            pruned
        });
        while !is_over.load(Ordering::SeqCst) || looks < VIEWS.len() {
            let view = VIEWS[looks % VIEWS.len()];
            let ended = place.ledger(view);
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{view}: {ended:?}");
            looks += 1;
        }
        assert!(pruning.join().unwrap() > 1);
    });
}
