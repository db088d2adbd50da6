//! The laboratory with a small budget, and proofs that it can fail.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use plan_ledger::lab::{
    Case, Depth, Doubt, Model, Op, Promise, Scope, Tally, dir, endure, environment, every_crash,
    examine, explore, explore_one, replay, strike, strike_one,
};
use plan_ledger::sim::{Profile, SimDisk};
use plan_ledger::{Ledger, Plan, RunPolicy};

fn go_on(_: &Tally) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Goal: no crash of any history of one operation, nor of its recovery, breaks a promise; and the
/// same seed gives the same images, whatever the threads do.
#[test]
fn small_histories_keep_every_promise_and_give_the_same_images() {
    let run = |jobs| {
        let jobs = NonZeroUsize::new(jobs).unwrap();
        let scope = Scope { ops: 1, jobs, ..Scope::WHOLE };
        explore(&scope, &go_on).unwrap_or_else(|broken| panic!("{broken}"))
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.digest, two.digest, "other images");
    assert_eq!(one.examined(), two.examined());
    assert_eq!((one.workloads, one.workloads_all), (9, 9));
    assert!(one.tried() > 900 && one.torn > 20 && one.unproven > 20, "{one:?}");
    assert_eq!(one.asked, 0, "the engine asked where it can tell");
}

/// Goal: longer histories too, a few of them: those in which a prune is crashed, among others.
#[test]
fn a_few_longer_histories_keep_every_promise() {
    let scope = Scope { samples: 3, subsets: 3, subsets_again: 2, ..Scope::WHOLE };
    // What is killed has nothing in the cache alone that it could lose: few images differ.
    let histories =
        [([Op::Rotate, Op::Prune], 20), ([Op::Flush, Op::Kill], 2), ([Op::Batch, Op::Rotate], 20)];
    for (ops, least) in histories {
        let tally = explore_one(&scope, &ops).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(tally.examined() > least && tally.points_again > 0, "{tally:?}");
    }
}

/// Goal: calls that fail cost nothing that was acknowledged; devices that lie make nothing up.
#[test]
fn failing_and_lying_disks_are_survived() {
    let strikes = strike(0, 1, &|_| ControlFlow::Continue(())).unwrap_or_else(|it| panic!("{it}"));
    assert_eq!((strikes.workloads, strikes.workloads_all), (1, 1));
    let kinds = &strikes.kinds;
    assert!(kinds.len() > 20);
    assert!(kinds["sync fails, pages marked clean"].faults > 3, "{kinds:?}");
    assert!(kinds["lying sync"].images > 10, "{kinds:?}");
    // What rots has to be there: the first writes are to empty files.
    assert!(kinds["bit rot at a write"].faults > 3, "{kinds:?}");
}

/// Story: a kill is noted by the disk as what was done to its user. The run took it for a failure
/// that had struck, and went on to look for the next such call for ever.
#[test]
fn a_history_with_a_kill_is_struck_to_its_end() {
    let kill = strike_one(&[Op::Kill], 1).unwrap_or_else(|it| panic!("{it}"));
    let none = strike_one(&[], 1).unwrap_or_else(|it| panic!("{it}"));
    // It does all that making the ledger does, and opens it again. Of torn writes it is not the
    // calls that are counted.
    for (kind, struck) in none.kinds.iter().filter(|(kind, _)| !kind.starts_with("torn")) {
        assert!(kill.kinds[kind].faults >= struck.faults, "{kind}: {kill:?}");
    }
    assert!(kill.kinds["read fails"].faults > none.kinds["read fails"].faults);
}

/// Story: a write got lost, the power went, and what was left was an earlier moment with an end to
/// take over. The laboratory held the note of that recovery, which stands where the lost record had
/// stood, against the lost record, and called it made up.
#[test]
fn a_recovery_of_an_earlier_moment_makes_nothing_up() {
    let struck = strike_one(&[Op::Flush, Op::Prune], 1).unwrap_or_else(|it| panic!("{it}"));
    assert!(struck.kinds["lost write"].earlier > 0, "{struck:?}");
}

/// Goal: on devices that tear sectors inside the engine may ask, and keeps every promise otherwise.
#[test]
fn devices_that_tear_inside_of_sectors_are_survived() {
    for device in [Profile::OrderedAppend, Profile::Psow512, Profile::Psow4096] {
        let scope = Scope { ops: 1, samples: 4, device, ..Scope::WHOLE };
        let tally = explore(&scope, &|_| ControlFlow::Continue(()))
            .unwrap_or_else(|broken| panic!("{}: {broken}", device.name()));
        assert!(tally.examined() > 100 && tally.asked < tally.torn + tally.unproven, "{tally:?}");
    }
}

/// Goal: a long life with crashes of operations and of recoveries, and readers all the while, keeps
/// every promise, and the same seed gives the same life.
#[test]
fn a_long_life_of_crashes_keeps_every_promise() {
    let live = || endure(400, 5, &mut |_| ()).unwrap_or_else(|broken| panic!("{broken}"));
    let lived = live();
    assert!(lived.crashes > 30 && lived.looks > 200 && lived.records > 200, "{lived:?}");
    assert_eq!(lived, live());
}

/// A ledger of one acknowledged record, as the oracle's model knows it.
fn acknowledged() -> (SimDisk, Model) {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
    ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    let storage: std::sync::Arc<dyn plan_ledger::storage::Storage> =
        std::sync::Arc::new(disk.clone());
    let reader = plan_ledger::log::LogReader::open(&storage, &dir()).unwrap();
    let acked = super::lab::whole(&reader).into_iter().map(std::sync::Arc::new).collect();
    ledger.close().unwrap();
    (disk, Model { is_created: true, acked, ..Model::default() })
}

/// Goal: the oracle can fail. A record that was promised and is not there, one that is there and
/// nobody asked for, a changed byte, a ledger that is gone: each is the promise that it breaks.
#[test]
fn the_oracle_finds_what_is_wrong() {
    let judged = |disk: &SimDisk, model: &Model| {
        let passed = examine(&disk.fork(), model, Depth::Full, Doubt::Wrong);
        passed.map(|_| ()).map_err(|violation| violation.promise)
    };
    let (disk, model) = acknowledged();
    assert_eq!(judged(&disk, &model), Ok(()));

    let mut more = model.clone();
    let mut next = (**more.acked.last().unwrap()).clone();
    next.seq += 1;
    more.acked.push(next.into());
    assert_eq!(judged(&disk, &more), Err(Promise::AckedKept));

    let mut less = model.clone();
    less.acked.pop();
    assert_eq!(judged(&disk, &less), Err(Promise::PrefixOfIssued));

    let mut other = model.clone();
    let mut last = (**other.acked.last().unwrap()).clone();
    last.payload.push(1);
    *other.acked.last_mut().unwrap() = last.into();
    assert_eq!(judged(&disk, &other), Err(Promise::PrefixOfIssued));

    let damaged = disk.fork();
    let segment = damaged.files(&dir().join("log")).remove(0);
    damaged.overwrite(&segment, 4096 + 60, &[0xFF; 8]).unwrap();
    assert!(judged(&damaged, &model).is_err());

    assert_eq!(judged(&SimDisk::new(), &model), Err(Promise::AckedKept));
}

/// Goal: a case is a line, and a line is a case.
#[test]
fn a_case_is_a_line_that_can_be_tried_again() {
    for line in ["create", "append+rotate/17,power:but5", "kill/0,process/3,power:seed99"] {
        let case = Case::parse(line).unwrap();
        assert_eq!(case.to_string(), line);
        replay(&case).unwrap_or_else(|broken| panic!("{broken}"));
    }
    for wrong in ["", "append+fly", "append/x,process", "append/1,power:maybe"] {
        assert_eq!(Case::parse(wrong), None, "{wrong}");
    }
}

/// Goal: a harness that forgets what it did is found out: the one here counts its work in memory,
/// and claims after a crash that all of it is still to be done.
#[test]
fn a_broken_harness_is_found_out() {
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "a"}, {"id": "b"}]}"#).unwrap();
    let life = |disk: &SimDisk, name: &str| -> Result<usize, String> {
        let words = |error: plan_ledger::Error| error.to_string();
        let (ledger, _) = Ledger::open_or_create(&dir(), &environment(disk)).map_err(words)?;
        if ledger.state().unwrap().run_named(name).is_none() {
            ledger.start_run(name, &plan, RunPolicy::default()).map_err(words)?;
        }
        let runs = ledger.state().unwrap().runs.len();
        ledger.close().map_err(words)?;
        Ok(runs)
    };
    let judge = |_: &SimDisk, runs: usize| {
        if runs == 1 { Ok(()) } else { Err(format!("{runs} runs")) }
    };
    let tried = every_crash(|disk| life(disk, "r"), judge).unwrap();
    assert!(tried.points > 20 && tried.lives == 4 * tried.points, "{tried:?}");
    let forgetful = every_crash(|disk| life(disk, &format!("r{}", disk.calls())), judge);
    let failed = forgetful.unwrap_err();
    assert!(failed.crash.is_some() && failed.what == "2 runs", "{failed}");
}
