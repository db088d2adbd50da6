//! What a check of a store must repair although it is rare, and what it must leave alone.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use plan_ledger::internals::ledger::RetentionLimit;
use plan_ledger::internals::sim::SimDisk;
use plan_ledger::internals::storage::Storage;
use plan_ledger::internals::store::{
    AckMode, LedgerIdentity, MonotonicClock, SideCar, StoreOpening, bind, bound_ledger, restore,
};
use plan_ledger::plan::ContentHash;
use plan_ledger::{ErrorKind, LedgerView, State, state_hash};

use super::lab::{at, dir, reader};
use super::store_damage::{history, opened};
use super::store_folder::{client, node, restored, unbind};
use super::store_retention::{notes, prune_store, pruned_after, quiet};

/// The last record of a folder, and the state after it.
fn state_of(disk: &SimDisk) -> (u64, ContentHash) {
    let view = LedgerView::open(&dir(), &quiet(disk)).unwrap();
    let last = reader(disk).head().unwrap().durable_seq;
    (last, state_hash(&view.state_at(last).unwrap()))
}

/// Goal: a holder whose prefix was emptied and given to another ledger repairs nothing there.
#[test]
fn prefix_of_another_ledger_is_left_alone() {
    let (disk, store) = history(4);
    let (ledger, keeper) = opened(&disk, &store, 7).unwrap();
    let identity = bound_ledger(&store, &|_| false).unwrap().unwrap();
    for name in store.names() {
        store.tamper(&name, None);
    }
    let other = LedgerIdentity { ledger: [7; 16], ..identity };
    bind(&store, &other, 1, &|_| false).unwrap();
    let names = store.names();
    let error = keeper.check_store().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Rejected, "{error}");
    assert_eq!(store.names(), names);
    drop(ledger);
}

/// Goal: the store of a pruned ledger can be restored right after the next prune, too: it has the anchors of its note, however
/// long they are for the few records between them.
#[test]
fn store_has_the_anchors_of_every_later_note() {
    let (disk, store) = pruned_after(&|_, _, keeper| {
        keeper.upload_segments().unwrap();
    });
    prune_store(&disk, &store);
    let (ledger, keeper) = opened(&disk, &store, 2).unwrap();
    notes(&ledger, 20);
    ledger.snapshot::<State>().unwrap();
    ledger.snapshot::<State>().unwrap();
    notes(&ledger, 20);
    while keeper.upload_segments().unwrap() > 0 {}
    let before = reader(&disk).first_seq();
    let last = reader(&disk).head().unwrap().durable_seq;
    ledger.prune(RetentionLimit::Record(last - 25), None, "ann").unwrap();
    assert!(reader(&disk).first_seq() > before);
    keeper.upload_segments().unwrap();
    let copy = SimDisk::new();
    restore(&dir(), quiet(&copy).log_options(), &client(&store), &mut |_| ()).unwrap();
    assert_eq!(state_of(&copy), state_of(&disk));
    ledger.close().unwrap();
}

/// Story: a side-car that had nothing to ship did not notice that another machine continued the log and pruned it. Its daily
/// check created what was deleted again.
#[test]
fn idle_side_car_repairs_nothing_that_another_machine_pruned() {
    let idle = RefCell::new(None);
    let (disk, store) = pruned_after(&|_, store, keeper| {
        keeper.upload_segments().unwrap();
        let copy = restored(store).unwrap().0;
        unbind(&copy);
        let storage: Arc<dyn Storage> = Arc::new(copy);
        let clock = MonotonicClock::new(|| Duration::ZERO);
        let opening = StoreOpening { ack: AckMode::Local, node: node(9), time: at(1000), clock };
        let process = client(&store.handle());
        let mut car = SideCar::open(&dir(), &storage, &process, &opening).unwrap();
        car.ship().unwrap();
        assert_eq!(car.check_store().unwrap(), []);
        idle.replace(Some(car));
    });
    assert!(prune_store(&disk, &store).len() > 2);
    let (mut car, names) = (idle.into_inner().unwrap(), store.names());
    let error = car.check_store().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Diverged, "{error}");
    assert_eq!(store.names(), names);
}
