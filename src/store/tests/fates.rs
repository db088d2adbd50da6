//! Every fate of every call, and another process that takes over at any call: nothing that was
//! acknowledged is lost, and nothing is invented.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::error::ErrorKind;
use crate::sim::{SimStore, StoreFate, sweep};
use crate::store::StoreEnd;

use super::node::{Node, read_from};

/// The requests and acknowledgements of all processes.
#[derive(Debug, Default, Clone)]
struct Journal {
    requested: Vec<String>,
    acknowledged: Vec<(u64, String)>,
}

/// A process opens an epoch and commits records, until it is refused.
fn live(store: &SimStore, number: u8, commits: u32, journal: &Arc<Mutex<Journal>>) {
    let opened = format!("opened by {number:02x}");
    journal.lock().unwrap().requested.push(opened.clone());
    let mut node = match Node::open(store, number) {
        Ok(node) => node,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            return;
        }
    };
    journal.lock().unwrap().acknowledged.push((node.last(), opened));
    for commit in 0..commits {
        let text = format!("{number:02x}-{commit}");
        journal.lock().unwrap().requested.push(text.clone());
        match node.append(&text) {
            Ok(seq) => journal.lock().unwrap().acknowledged.push((seq, text)),
            Err(error) => {
                let kind = error.kind();
                let is_expected = matches!(kind, ErrorKind::Fenced | ErrorKind::OutcomeUnknown);
                assert!(is_expected, "{error}");
                return;
            }
        }
    }
}

/// Carry out everything that is under way; the log must have all acknowledged records, in their places,
/// and only requested ones, each once.
fn examine(store: &SimStore, journal: &Arc<Mutex<Journal>>, case: &str) {
    store.carry_out_all();
    live(&store.handle(), 0x70, 1, journal);
    let (log, _) = read_from(&store.handle(), StoreEnd::start())
        .unwrap_or_else(|error| panic!("{case}: {error}"));
    let journal = journal.lock().unwrap();
    for (seq, text) in &journal.acknowledged {
        let found = log.get(usize::try_from(*seq).unwrap() - 1).map(|(_, text)| text);
        assert_eq!(found, Some(text), "{case}: record {seq} is lost");
    }
    let mut count = BTreeMap::new();
    for (place, (seq, text)) in log.iter().enumerate() {
        assert_eq!(usize::try_from(*seq).unwrap(), place + 1, "{case}");
        *count.entry(text).or_insert(0) += 1;
        assert!(journal.requested.contains(text), "{case}: {text} is invented");
    }
    // An opening slot that was abandoned for another process is sent again under a later name.
    let is_once = |(text, count): (&&String, &i32)| *count == 1 || text.starts_with("opened");
    assert!(count.iter().all(is_once), "{case}: {count:?}");
}

/// The bytes that a process sends under one name never differ.
fn examine_bytes(process: &SimStore, case: &str) {
    let mut first = BTreeMap::new();
    for sent in process.creates() {
        let before = first.entry(sent.name.clone()).or_insert_with(|| sent.bytes.clone());
        assert_eq!(*before, sent.bytes, "{case}: other bytes under {}", sent.name);
    }
}

/// One process lives with a fate at a call, and another one takes over at a later call or never.
fn run(fates: &[(u64, StoreFate)], takeover: Option<u64>) {
    let case = format!("{fates:?}, takeover {takeover:?}");
    let store = SimStore::new();
    let journal = Arc::new(Mutex::new(Journal::default()));
    let process = store.handle();
    for (call, fate) in fates {
        process.set_fate(*call, *fate);
    }
    if let Some(call) = takeover {
        let (other, journal) = (store.handle(), journal.clone());
        process.before_call(call, move || live(&other.handle(), 2, 2, &journal));
    }
    live(&process, 1, 3, &journal);
    examine_bytes(&process, &case);
    examine(&store, &journal, &case);
}

/// The number of calls of a life without faults.
fn calls() -> u64 {
    let process = SimStore::new();
    live(&process, 1, 3, &Arc::default());
    process.calls()
}

/// Goal: every fate of every call of a process, with a takeover at each of the calls that follow.
#[test]
fn every_fate_of_every_call_loses_and_invents_nothing() {
    let calls = calls();
    assert!((7..20).contains(&calls), "{calls}");
    let mut count = 0;
    for call in 1..=calls {
        run(&[], Some(call));
        for fate in StoreFate::ALL {
            run(&[(call, fate)], None);
            for takeover in call..=calls + 3 {
                run(&[(call, fate)], Some(takeover));
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count}");
}

/// Goal: the same for two fates.
#[test]
fn sweep_every_pair_of_fates_loses_and_invents_nothing() {
    let calls = calls() + 2;
    let step = sweep(29, 3, 1);
    let mut count = 0;
    for first in 1..=calls {
        for second in first + 1..=calls {
            for (one, two) in
                StoreFate::ALL.iter().flat_map(|one| StoreFate::ALL.map(|two| (*one, two)))
            {
                for takeover in [None].into_iter().chain((first..=calls + 2).map(Some)) {
                    count += 1;
                    if count % step == 0 {
                        run(&[(first, one), (second, two)], takeover);
                    }
                }
            }
        }
    }
}

/// A seeded random number below a bound.
fn random(seed: &mut u64, below: u64) -> u64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % below
}

/// A process with random fates, while other processes act.
fn random_life(
    store: &SimStore,
    numbers: &Arc<Mutex<Vec<u8>>>,
    seed: &mut u64,
    journal: &Arc<Mutex<Journal>>,
) {
    let Some(number) = numbers.lock().unwrap().pop() else { return };
    let process = store.handle();
    for _ in 0..random(seed, 4) {
        let fate = StoreFate::ALL[usize::try_from(random(seed, 8)).unwrap()];
        process.set_fate(1 + random(seed, 40), fate);
    }
    if random(seed, 2) == 0 {
        let (store, numbers, journal) = (store.handle(), numbers.clone(), journal.clone());
        let mut seed = random(seed, u64::from(u32::MAX));
        process.before_call(1 + random(&mut seed, 40), move || {
            random_life(&store, &numbers, &mut seed, &journal);
        });
    }
    live(&process, number, 3, journal);
    examine_bytes(&process, "random");
}

/// Goal: a fleet of processes with random fates, nested in each other's pauses.
#[test]
fn sweep_random_fleet_loses_and_invents_nothing() {
    for seed in 0..sweep(300, 20_000, 1_000_000) {
        let store = SimStore::new();
        let journal = Arc::new(Mutex::new(Journal::default()));
        let numbers = Arc::new(Mutex::new((1..=6).rev().collect::<Vec<u8>>()));
        let mut state = seed;
        for _ in 0..4 {
            random_life(&store, &numbers, &mut state, &journal);
        }
        examine(&store, &journal, &format!("seed {seed}"));
    }
}
