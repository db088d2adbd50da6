//! The crash laboratory with a small budget, and tests that it can fail.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use plan_ledger::internals::sim::dir;
use plan_ledger::internals::sim::{Profile, SimDisk};
use plan_ledger::{Ledger, Plan, RunPolicy};
use plan_ledger_lab::{
    Ambiguity, Case, Depth, ExploreReport, ExploreScope, Guarantee, Model, Op, environment,
    every_crash, examine, explore, explore_one, inject_faults, inject_into, replay, soak,
};

fn continue_always(_: &ExploreReport) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Goal: no crash of a workload of one operation, nor of its recovery, violates a guarantee; and the same
/// seed gives the same images with any number of threads.
#[test]
fn one_operation_workloads_keep_guarantees_deterministically() {
    let run = |jobs| {
        let jobs = NonZeroUsize::new(jobs).unwrap();
        let scope = ExploreScope { ops: 1, jobs, ..ExploreScope::FULL };
        explore(&scope, &continue_always).unwrap_or_else(|broken| panic!("{broken}"))
    };
    let (one, two) = (run(1), run(2));
    assert_eq!(one.digest, two.digest, "different images");
    assert_eq!(one.examined(), two.examined());
    assert_eq!((one.workloads, one.workloads_all), (9, 9));
    assert!(one.tried() > 900 && one.torn > 20 && one.unacknowledged > 20, "{one:?}");
    assert_eq!(one.ambiguous, 0, "an image was reported as ambiguous");
}

/// Goal: some longer workloads keep every guarantee, among them a crashed prune.
#[test]
fn longer_workloads_keep_every_guarantee() {
    let scope = ExploreScope { samples: 3, subsets: 3, subsets_again: 2, ..ExploreScope::FULL };
    // A kill leaves nothing in the cache alone: few images differ.
    let workloads =
        [([Op::Rotate, Op::Prune], 20), ([Op::Flush, Op::Kill], 2), ([Op::Batch, Op::Rotate], 20)];
    for (ops, least) in workloads {
        let report = explore_one(&scope, &ops).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(report.examined() > least && report.points_again > 0, "{report:?}");
    }
}

/// Goal: failing calls lose no acknowledged record, and with lying devices no record is invented.
#[test]
fn failing_and_lying_disks_keep_guarantees() {
    let report =
        inject_faults(0, 1, &|_| ControlFlow::Continue(())).unwrap_or_else(|it| panic!("{it}"));
    assert_eq!((report.workloads, report.workloads_all), (1, 1));
    let classes = &report.classes;
    assert!(classes.len() > 20);
    assert!(classes["sync fails, pages marked clean"].faults > 3, "{classes:?}");
    assert!(classes["lying sync"].images > 10, "{classes:?}");
    // Only existing bytes can rot: the first writes are to empty files.
    assert!(classes["bit rot at a write"].faults > 3, "{classes:?}");
}

/// Story: the disk logs a kill like a fault. Fault injection took the kill for the injected fault, and
/// searched for the next matching call forever.
#[test]
fn fault_injection_ends_for_workloads_with_a_kill() {
    let kill = inject_into(&[Op::Kill], 1).unwrap_or_else(|it| panic!("{it}"));
    let none = inject_into(&[], 1).unwrap_or_else(|it| panic!("{it}"));
    // The workload creates the ledger and opens it again. Torn writes are not counted by call.
    for (class, counts) in none.classes.iter().filter(|(class, _)| !class.starts_with("torn")) {
        assert!(kill.classes[class].faults >= counts.faults, "{class}: {kill:?}");
    }
    assert!(kill.classes["read fails"].faults > none.classes["read fails"].faults);
}

/// Story: after a lost write and a power loss, an earlier state with an unacknowledged end was left. The
/// recovery note took the position of the lost record, and the laboratory reported it as invented.
#[test]
fn recovery_note_of_an_earlier_state_is_not_invented() {
    let report = inject_into(&[Op::Flush, Op::Prune], 1).unwrap_or_else(|it| panic!("{it}"));
    assert!(report.classes["lost write"].earlier > 0, "{report:?}");
}

/// Goal: on devices that tear sectors the engine may ask a person, and keeps every guarantee otherwise.
#[test]
fn sector_tearing_devices_keep_guarantees() {
    for device in [Profile::OrderedAppend, Profile::Psow512, Profile::Psow4096] {
        let scope = ExploreScope { ops: 1, samples: 4, device, ..ExploreScope::FULL };
        let report = explore(&scope, &|_| ControlFlow::Continue(()))
            .unwrap_or_else(|broken| panic!("{}: {broken}", device.name()));
        assert!(
            report.examined() > 100 && report.ambiguous < report.torn + report.unacknowledged,
            "{report:?}"
        );
    }
}

/// Goal: a long history with crashes of operations and recoveries and an open reader keeps every guarantee,
/// and the same seed gives the same history.
#[test]
fn soak_test_keeps_guarantees_deterministically() {
    let run = || soak(400, 5, &mut |_| ()).unwrap_or_else(|broken| panic!("{broken}"));
    let report = run();
    assert!(report.crashes > 30 && report.reads > 200 && report.records > 200, "{report:?}");
    assert_eq!(report, run());
}

/// A ledger with one acknowledged record, and its model.
fn acknowledged() -> (SimDisk, Model) {
    let disk = SimDisk::new();
    let ledger = Ledger::create(&dir(), &environment(&disk)).unwrap();
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "a"}]}"#).unwrap();
    ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    let storage: std::sync::Arc<dyn plan_ledger::internals::storage::Storage> =
        std::sync::Arc::new(disk.clone());
    let reader = plan_ledger::log::LogReader::open(&storage, &dir()).unwrap();
    let acked = super::lab::whole(&reader).into_iter().map(std::sync::Arc::new).collect();
    ledger.close().unwrap();
    (disk, Model { is_created: true, acked, ..Model::default() })
}

/// Goal: the oracle can fail. A missing record, a record that was never requested, a changed byte and a
/// missing ledger each violate the expected guarantee.
#[test]
fn oracle_detects_violated_guarantees() {
    let examined = |disk: &SimDisk, model: &Model| {
        let result = examine(&disk.fork(), model, Depth::Full, Ambiguity::Forbidden);
        result.map(|_| ()).map_err(|violation| violation.guarantee)
    };
    let (disk, model) = acknowledged();
    assert_eq!(examined(&disk, &model), Ok(()));

    let mut more = model.clone();
    let mut next = (**more.acked.last().unwrap()).clone();
    next.seq += 1;
    more.acked.push(next.into());
    assert_eq!(examined(&disk, &more), Err(Guarantee::AckedKept));

    let mut less = model.clone();
    less.acked.pop();
    assert_eq!(examined(&disk, &less), Err(Guarantee::PrefixOfIssued));

    let mut other = model.clone();
    let mut last = (**other.acked.last().unwrap()).clone();
    last.payload.push(1);
    *other.acked.last_mut().unwrap() = last.into();
    assert_eq!(examined(&disk, &other), Err(Guarantee::PrefixOfIssued));

    let damaged = disk.fork();
    let segment = damaged.files(&dir().join("log")).remove(0);
    damaged.overwrite(&segment, 4096 + 60, &[0xFF; 8]).unwrap();
    assert!(examined(&damaged, &model).is_err());

    assert_eq!(examined(&SimDisk::new(), &model), Err(Guarantee::AckedKept));
}

/// Goal: a case and its line convert into each other, and a line can be replayed.
#[test]
fn case_lines_round_trip_and_replay() {
    for line in ["create", "append+rotate/17,power:but5", "kill/0,process/3,power:seed99"] {
        let case = Case::parse(line).unwrap();
        assert_eq!(case.to_string(), line);
        replay(&case).unwrap_or_else(|broken| panic!("{broken}"));
    }
    for wrong in ["", "append+fly", "append/x,process", "append/1,power:maybe"] {
        assert_eq!(Case::parse(wrong), None, "{wrong}");
    }
}

/// Goal: a harness that forgets its progress after a crash fails the test.
#[test]
fn every_crash_detects_a_broken_harness() {
    let plan: Plan = serde_json::from_str(r#"{"steps": [{"id": "a"}, {"id": "b"}]}"#).unwrap();
    let workload = |disk: &SimDisk, name: &str| -> Result<usize, String> {
        let text = |error: plan_ledger::Error| error.to_string();
        let (ledger, _) = Ledger::open_or_create(&dir(), &environment(disk)).map_err(text)?;
        if ledger.state().unwrap().run_named(name).is_none() {
            ledger.start_run(name, &plan, RunPolicy::default()).map_err(text)?;
        }
        let runs = ledger.state().unwrap().runs.len();
        ledger.close().map_err(text)?;
        Ok(runs)
    };
    let check = |_: &SimDisk, runs: usize| {
        if runs == 1 { Ok(()) } else { Err(format!("{runs} runs")) }
    };
    let tried = every_crash(|disk| workload(disk, "r"), check).unwrap();
    assert!(tried.points > 20 && tried.runs == 4 * tried.points, "{tried:?}");
    let forgetful = every_crash(|disk| workload(disk, &format!("r{}", disk.calls())), check);
    let failed = forgetful.unwrap_err();
    assert!(failed.crash.is_some() && failed.what == "2 runs", "{failed}");
}
