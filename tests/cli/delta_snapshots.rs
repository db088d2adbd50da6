//! Delta snapshots: they give the same state as full ones, and a lost base costs time and
//! nothing else.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use plan_ledger::internals::format::{
    SNAPSHOT_BASES_MAX, SnapshotBase, SnapshotHeader, SnapshotName,
};
use plan_ledger::internals::ledger::{LedgerCondition, RetentionLimit};
use plan_ledger::internals::sim::{SimDisk, sweep};
use plan_ledger::internals::storage::Storage as _;
use plan_ledger::{
    Environment, ErrorKind, Ledger, LedgerView, Projection, RunId, State, state_hash,
};

use crate::lab::{dir, reader};
use crate::snapshots::{append_note, append_unknown, opened, quiet, replayed, truth};
use crate::time_travel::{environment, play, snapshot_seqs};

/// Write a snapshot of the state at a record, based on another snapshot.
pub(crate) fn write(
    disk: &SimDisk,
    environment: &Environment,
    base: &SnapshotName,
    seq: u64,
) -> PathBuf {
    let view = LedgerView::open(&dir(), environment).unwrap();
    let (of_base, state) = (read(disk, base), view.state_at(seq).unwrap());
    let header = view.check_snapshot(base).unwrap();
    let base = SnapshotBase { seq: base.seq, state_hash: header.state_hash };
    let header = SnapshotHeader {
        seq,
        time: state.time,
        chain: view.log().chain_at(seq).unwrap().unwrap(),
        state_hash: state_hash(&state).0,
        base: Some(base),
        ..header
    };
    let body = |out: &mut dyn std::io::Write| state.encode_changes(&of_base, out);
    let header = SnapshotHeader { body_length: 0, ..header };
    let (header, path) = plan_ledger::log::write_snapshot(disk, &dir(), header, body).unwrap();
    append_note(disk, &header);
    path
}

/// The state of a snapshot and its bases.
fn read(disk: &SimDisk, name: &SnapshotName) -> State {
    let reader = reader(disk);
    let mut file = reader.open_snapshot(name).unwrap();
    match file.header().base_name() {
        None => State::decode(&mut file).unwrap(),
        Some(base) => State::decode_changes(read(disk, &base), &mut file).unwrap(),
    }
}

/// The names of the snapshots, oldest first.
fn names(disk: &SimDisk) -> Vec<SnapshotName> {
    reader(disk).snapshots().unwrap().names
}

fn path(name: &SnapshotName) -> PathBuf {
    dir().join("snap").join(name.to_string())
}

/// A closed ledger with a snapshot at 60, a delta of it at 80, and a delta of that at 100.
fn chain() -> (SimDisk, Environment) {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 60)).unwrap();
    play(&ledger, 5, 105);
    ledger.close().unwrap();
    let environment = quiet(&disk);
    for seq in [80, 100] {
        write(&disk, &environment, &names(&disk)[names(&disk).len() - 1], seq);
    }
    assert_eq!(snapshot_seqs(&disk), [60, 80, 100]);
    (disk, environment)
}

/// Goal: the state at every record is the same from any snapshot, and a full verification finds
/// nothing.
#[test]
fn state_is_the_same_from_a_delta_snapshot() {
    let (disk, environment) = chain();
    let hashes = truth(&disk);
    let view = LedgerView::open(&dir(), &environment).unwrap();
    for (seq, hash) in (0_u64..).zip(&hashes).skip(1) {
        assert_eq!(state_hash(&view.state_at(seq).unwrap()), *hash, "{seq}");
    }
    assert_eq!(opened(&disk, &environment), (hashes[hashes.len() - 1], Some(100), vec![]));
    assert_eq!(replayed(&environment).condition(), LedgerCondition::Valid);
    let lengths: Vec<_> =
        names(&disk).iter().map(|name| view.check_snapshot(name).unwrap().body_length).collect();
    assert!(lengths[1] < lengths[0] && lengths[2] < lengths[0], "{lengths:?}");
}

/// Goal: either of two states can be encoded as changes of the other, and a decoded state is
/// encoded to the same bytes.
#[test]
fn sweep_changes_lead_from_any_state_to_any_other() {
    let (_disk, environment) = chain();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let packed = |seq| {
        let mut body = Vec::new();
        view.state_at(seq).unwrap().encode(&mut body).unwrap();
        State::decode(&mut body.as_slice()).unwrap()
    };
    let seqs = [0, 1, 7, 40, 41, 77, 105];
    for (from, to) in seqs.iter().flat_map(|from| seqs.map(|to| (*from, to))) {
        let (base, state) = (packed(from), packed(to));
        let mut body = Vec::new();
        state.encode_changes(&base, &mut body).unwrap();
        let made = State::decode_changes(packed(from), &mut body.as_slice()).unwrap();
        assert_eq!(state_hash(&made), state_hash(&state), "{from} to {to}");
        assert_eq!(made.validate(), None, "{from} to {to}");
        let mut again = Vec::new();
        made.encode_changes(&base, &mut again).unwrap();
        assert!(again == body, "{from} to {to}");
        // No prefix of it decodes to a state.
        for length in (0..body.len()).step_by(sweep(23, 1, 1)) {
            let cut = State::decode_changes(packed(from), &mut &body[..length]);
            assert!(cut.is_err(), "{from} to {to}, {length} bytes");
        }
    }
}

/// Goal: damage of a base costs the snapshots based on it and nothing else: every bit is
/// covered, the file is named, and the state is folded from an older snapshot.
#[test]
fn every_flipped_bit_of_a_base_is_detected() {
    let (disk, environment) = chain();
    let hashes = truth(&disk);
    let names = names(&disk);
    let (whole, top) = (path(&names[0]), path(&names[2]));
    let bytes = disk.read(&whole).unwrap();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    for (at, byte) in (0_u64..).zip(&bytes) {
        disk.overwrite(&whole, at, &[byte ^ (1 << (at % 8))]).unwrap();
        let error = view.check_snapshot(&names[2]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}");
        assert_eq!(error.location().path.as_ref(), Some(&top), "byte {at}: {error}");
        assert!(error.to_string().contains(&names[0].to_string()), "byte {at}: {error}");
        if at % 64 == 5 {
            let (hash, from, notes) = opened(&disk, &environment);
            assert_eq!((hash, from), (hashes[hashes.len() - 1], None), "byte {at}");
            assert_eq!(notes.len(), 3, "byte {at}: {notes:?}");
        }
        disk.overwrite(&whole, at, &[*byte]).unwrap();
    }
    assert_eq!(opened(&disk, &environment).1, Some(100));
}

/// Goal: a missing base, or another file of its name, is detected; the next snapshot is a full
/// one, and everything works again.
#[test]
fn missing_or_replaced_base_is_detected() {
    let (disk, environment) = chain();
    let hashes = truth(&disk);
    let names = names(&disk);
    let other = |change: &dyn Fn(&mut SnapshotHeader)| {
        let bytes = disk.read(&path(&names[1])).unwrap();
        let mut header = SnapshotHeader::decode(&bytes).unwrap();
        change(&mut header);
        [&header.encode(), &bytes[512..]].concat()
    };
    let contents = [
        None,
        Some(other(&|header| header.state_hash[31] ^= 1)),
        Some(other(&|header| header.ledger = [7; 16])),
        Some(other(&|header| header.genesis = [7; 16])),
        Some(other(&|header| {
            header.base = header.base.map(|base| SnapshotBase { seq: 59, ..base });
        })),
        Some(other(&|header| header.base = None)),
        Some(Vec::new()),
    ];
    for (story, content) in contents.into_iter().enumerate() {
        let disk = disk.fork();
        let environment = Environment { storage: Arc::new(disk.clone()), ..environment.clone() };
        disk.remove(&path(&names[1])).unwrap();
        if let Some(content) = content {
            let file = disk.create(&path(&names[1])).unwrap();
            file.write_at(&content, 0).unwrap();
            file.sync().unwrap();
        }
        let (hash, from, notes) = opened(&disk, &environment);
        assert_eq!((hash, from), (hashes[hashes.len() - 1], Some(60)), "{story}: {notes:?}");
        let is_said = notes[0].contains(&names[2].to_string());
        assert!(is_said && notes[0].contains("its base"), "{story}: {notes:?}");
        assert_ne!(replayed(&environment).condition(), LedgerCondition::Valid, "{story}");
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        let made = ledger.snapshot::<State>().unwrap();
        ledger.close().unwrap();
        assert_eq!(opened(&disk, &environment).1, Some(made.seq), "{story}");
    }
}

/// Goal: headers can claim any chain of bases, and a reader still terminates.
#[test]
fn long_chain_of_bases_is_rejected() {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk, 20)).unwrap();
    play(&ledger, 5, 65);
    ledger.close().unwrap();
    let environment = quiet(&disk);
    for (below, seq) in (21..=29).enumerate() {
        let base = names(&disk).into_iter().find(|name| name.seq == seq - 1).unwrap();
        let path = write(&disk, &environment, &base, seq);
        let name = SnapshotName::parse(path.file_name().unwrap().to_str().unwrap()).unwrap();
        let view = LedgerView::open(&dir(), &environment).unwrap();
        let checked = view.check_snapshot(&name).map_err(|error| error.to_string());
        assert_eq!(checked.is_ok(), below < SNAPSHOT_BASES_MAX, "{seq}: {checked:?}");
    }
}

/// Goal: a snapshot on request is a full one, and replaces a delta; a scheduled delta does not
/// replace a full one.
#[test]
fn full_snapshot_replaces_a_delta() {
    let (disk, environment) = chain();
    let names = names(&disk);
    let base_at = |seq| {
        let header = |name| reader(&disk).snapshot_folder().header(name).unwrap().unwrap();
        let name = self::names(&disk).into_iter().find(|name| name.seq == seq).unwrap();
        header(&name).base.map(|base| base.seq)
    };
    assert_eq!((base_at(60), base_at(80), base_at(100)), (None, Some(60), Some(80)));
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let state = view.state_at(80).unwrap();
    let header = SnapshotHeader { base: None, ..view.check_snapshot(&names[1]).unwrap() };
    let header = SnapshotHeader { body_length: 0, ..header };
    let body = |out: &mut dyn std::io::Write| state.encode(out);
    plan_ledger::log::write_snapshot(&disk, &dir(), header, body).unwrap();
    assert_eq!(base_at(80), None);
    // The file changed, which makes no difference to the delta based on it.
    view.check_snapshot(&names[2]).unwrap();
    write(&disk, &environment, &names[0], 80);
    assert_eq!(base_at(80), None);
    assert_eq!(replayed(&environment).condition(), LedgerCondition::Valid);
}

/// A ledger that grew past several delta intervals, with open runs at each. All tests copy the same
/// history, which is made as far as one of them needs it.
fn grown(steps: usize) -> (SimDisk, Environment) {
    static GROWN: Mutex<Option<(Environment, Vec<SimDisk>)>> = Mutex::new(None);
    let mut grown = GROWN.lock().unwrap();
    let (first, disks) = grown.get_or_insert_with(|| {
        let disk = SimDisk::new();
        let environment = environment(&disk, 65_536);
        Ledger::create(&dir(), &environment).unwrap().close().unwrap();
        (environment, vec![disk])
    });
    // With the clock and the identifiers of the history.
    let on = |disk: &SimDisk| Environment { storage: Arc::new(disk.clone()), ..first.clone() };
    while disks.len() <= steps {
        let disk = disks[disks.len() - 1].fork();
        let step = u64::try_from(disks.len()).unwrap();
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, step * STEP - last);
        let (ledger, _) = Ledger::open_with(&dir(), &on(&disk)).unwrap();
        play(&ledger, step, ledger.head().seq + 60);
        assert_eq!(ledger.warnings(), Vec::<String>::new(), "{step}");
        ledger.close().unwrap();
        disks.push(disk);
    }
    let disk = disks[steps].fork();
    let environment = on(&disk);
    (disk, environment)
}

const STEP: u64 = 4096;

/// Goal: a growing ledger has a delta snapshot at every interval, based as the format
/// specifies; all of them are kept and valid, and give the same state.
#[test]
fn growing_ledger_has_a_snapshot_at_every_interval() {
    let (disk, environment) = grown(22);
    let view = LedgerView::open(&dir(), &environment).unwrap();
    let mut folded = Vec::new();
    for (name, step) in names(&disk).iter().zip(1..) {
        let header = view.check_snapshot(name).unwrap();
        let expected = match step {
            1..=4 | 8 | 12 | 16 => None,
            17..=20 => Some(16),
            step => Some(step / 4 * 4),
        };
        let base = header.base.map(|base| base.seq);
        assert_eq!((name.seq, base), (step * STEP, expected.map(|base| base * STEP)));
        folded.push((name.seq, header.state_hash));
    }
    assert_eq!(folded.len(), 22);
    for (seq, hash) in folded.into_iter().skip(14) {
        disk.remove(&path(names(&disk).iter().find(|name| name.seq == seq).unwrap())).unwrap();
        // From the previous one now.
        assert_eq!(state_hash(&view.state_at(seq).unwrap()).0, hash, "{seq}");
    }
}

/// Goal: a prune removes the snapshots based on those that it removes, and no anchor has a
/// base.
#[test]
fn prune_leaves_no_snapshot_without_its_base() {
    let (disk, environment) = grown(30);
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let through = RetentionLimit::Record(30 * STEP);
    let refused = ledger.prune(through, None, "ann").unwrap_err();
    assert!(refused.to_string().contains("snapshots without a base"), "{refused}");
    assert!(refused.to_string().contains("found 0;"), "{refused}");
    for seed in [50, 51] {
        ledger.snapshot::<State>().unwrap();
        play(&ledger, seed, ledger.head().seq + 20);
    }
    let pruned = ledger.prune(through, None, "ann").unwrap();
    assert!((28 * STEP + 1..30 * STEP).contains(&pruned.preview.last_seq), "{pruned:?}");
    assert_eq!(pruned.preview.snapshots, pruned.removal.snapshots);
    // Those after that record are based on removed ones, directly or not.
    assert_eq!(pruned.preview.snapshots.len(), 30);
    let hash = ledger.state_hash().unwrap();
    ledger.close().unwrap();
    let view = LedgerView::open(&dir(), &environment).unwrap();
    assert_eq!(names(&disk).len(), 2);
    for name in names(&disk) {
        assert_eq!(view.check_snapshot(&name).unwrap().base, None);
    }
    let (found, _, notes) = opened(&disk, &environment);
    assert_eq!((found, notes), (hash, vec![]));
}

/// A closed ledger with a waiting run, whose values stay in the log however large they are.
fn one_run() -> (SimDisk, Environment, RunId) {
    let disk = SimDisk::new();
    let environment = Environment { blob_threshold: usize::MAX, ..environment(&disk, 65_536) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
    let run = ledger.start_run("one", &plan, plan_ledger::RunPolicy::default()).unwrap();
    ledger.close().unwrap();
    (disk, environment, run)
}

/// Goal: a snapshot that is too large to be kept for itself is kept while others are based on
/// it.
#[test]
fn large_base_of_small_snapshots_is_kept() {
    let (disk, environment, run) = one_run();
    for step in [16, 20, 21, 22, 23, 24, 25] {
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, step * STEP - last - u64::from(step == 20));
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        if step == 20 {
            let mut rng = crate::rng::Rng(7);
            let noise = (0..200_000).map(|_| format!("{:016x}", rng.below(u64::MAX)));
            let noise = plan_ledger::Json::new(&noise.collect::<String>().into());
            ledger.set_variable(run, "noise", noise, None, "ann").unwrap();
        } else {
            let (limit, by) = (u32::try_from(step).ok(), "ann".to_owned());
            let scope = plan_ledger::plan::CapScope::Owner { owner: "unused".to_owned() };
            ledger.execute(&plan_ledger::Command::SetCap { scope, limit, by }).unwrap();
        }
        ledger.close().unwrap();
    }
    let lengths = names(&disk).into_iter().map(|name| {
        let length = disk.read(&path(&name)).unwrap().len();
        (name.seq / STEP, length > 1 << 20)
    });
    let expected = [(16, false), (20, true), (21, false), (22, false), (23, false)];
    assert_eq!(lengths.take(5).collect::<Vec<_>>(), expected);
    assert_eq!(replayed(&environment).condition(), LedgerCondition::Valid);
}

/// Story: a requested snapshot was removed two intervals later, and a prune, which needs two
/// full snapshots, found only one.
#[test]
fn two_requested_snapshots_are_enough_for_a_prune() {
    let (disk, environment) = grown(17);
    let mut asked = Vec::new();
    for step in 18..=23 {
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        if step % 3 == 0 {
            asked.push(ledger.snapshot::<State>().unwrap().seq);
        }
        ledger.close().unwrap();
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, step * STEP - last);
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        play(&ledger, step, ledger.head().seq + 20);
        ledger.close().unwrap();
    }
    let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
    let plan = ledger.prune(RetentionLimit::Record(17 * STEP), None, "ann").unwrap().preview;
    assert!(names(&disk).iter().filter(|name| asked.contains(&name.seq)).count() == 2, "{asked:?}");
    assert!(
        plan.anchors
            .iter()
            .all(|anchor| !anchor.seq.is_multiple_of(STEP) || anchor.seq == 16 * STEP)
    );
}

/// Story: a snapshot from beyond the end of the log, next to a log that was restored from an
/// older copy, hid the newest valid snapshots from the scheduler.
#[test]
fn snapshot_beyond_the_log_does_not_hide_valid_ones() {
    let (disk, environment) = grown(3);
    let mut header = SnapshotHeader::decode(&disk.read(&path(&names(&disk)[2])).unwrap()).unwrap();
    header.seq = 21 * STEP;
    header.stored_length = 3 << 20;
    header.body_length = 3 << 20;
    let stray = path(&header.name());
    let file = disk.create(&stray).unwrap();
    file.write_at(&[header.encode(), vec![0; 3 << 20]].concat(), 0).unwrap();
    file.sync().unwrap();
    for step in 4..=6 {
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, step * STEP - last);
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        play(&ledger, step, ledger.head().seq + 20);
        ledger.close().unwrap();
    }
    assert_eq!(snapshot_seqs(&disk), [1, 2, 3, 4, 5, 6, 21].map(|step| step * STEP));
}

/// Goal: after a delta snapshot that is larger than the records it saves, the next one waits until there
/// are as many records as it is large; an open folds no more than these.
#[test]
fn large_deltas_follow_at_larger_distances() {
    let (disk, environment, run) = one_run();
    let found: [(u64, &[u64]); 7] = [
        (16, &[16]),
        (17, &[16, 17]),
        (18, &[16, 17]),
        (20, &[16, 17, 20]),
        (21, &[16, 20, 21]),
        (32, &[16, 20, 21, 32]),
        // It was one of the newest two.
        (33, &[16, 32, 33]),
    ];
    for (step, expected) in found {
        let last = reader(&disk).head().unwrap().durable_seq;
        append_unknown(&disk, step * STEP - last - u64::from(step == 17));
        let (ledger, _) = Ledger::open_with(&dir(), &environment).unwrap();
        let noise: String = if step == 17 {
            let mut rng = crate::rng::Rng(9);
            (0..320_000).map(|_| format!("{:016x}", rng.below(u64::MAX))).collect()
        } else {
            step.to_string()
        };
        let name = if step == 17 { "noise" } else { "step" };
        let noise = plan_ledger::Json::new(&noise.into());
        ledger.set_variable(run, name, noise, None, "ann").unwrap();
        ledger.close().unwrap();
        let found: Vec<_> = snapshot_seqs(&disk).iter().map(|seq| seq / STEP).collect();
        assert_eq!(found, expected, "{step}");
    }
}
