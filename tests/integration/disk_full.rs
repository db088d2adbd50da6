//! A disk that runs full: on a small file system of its own, with real workers.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use plan_ledger::plan::StepStatus;

use super::command::{Place, ids, passed_over, state_of};

/// A small file system in memory, gone when this is dropped.
struct Disk {
    place: Place,
}

impl Disk {
    /// `None` where nobody may mount anything.
    fn new(size: &str) -> Option<Self> {
        let place = Place::new();
        let folder = place.path("disk");
        std::fs::create_dir(&folder).unwrap();
        if mount(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"], &folder) {
            return Some(Self { place });
        }
        passed_over("no file system can be mounted here");
        None
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,size={size}");
        assert!(mount(&["-o", &options], &self.place.path("disk")));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // A mount that stays is a nuisance, not a wrong result.
        let _ = Command::new("umount").arg("-l").arg(self.place.path("disk")).status();
    }
}

fn mount(options: &[&str], folder: &Path) -> bool {
    let output = Command::new("mount").args(options).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

/// Steps whose outputs are 60 kB each.
fn chatty_plan(steps: usize) -> String {
    let step = |n| {
        format!(
            "  - {{id: s{n}, command: 'echo $LEDGER_STEP >> $TALLY; \
             head -c 60000 /dev/zero | tr \"\\0\" x'}}\n"
        )
    };
    format!("steps:\n{}", (0..steps).map(step).collect::<String>())
}

/// Goal: a log that outgrows its disk stops the run with a clear message, loses nothing that was
/// acknowledged, and goes on with the same command once there is room.
#[test]
fn a_run_that_outgrows_its_disk_goes_on_when_there_is_room() {
    let Some(disk) = Disk::new("2500k") else { return };
    let place = &disk.place;
    place.write("plan.yaml", chatty_plan(40));
    let line = "run plan.yaml --ledger disk/ledger --max-parallel 2";
    let ended = place.ledger(line).code(7);
    let ended = ended.complains(&["disk/ledger", "No space left on device"]);
    let ended = ended.says(&["run plan: stopped", "run it again"]);
    let accepted = accepted(place);
    // What was refused may have been a claim, and what ran then may have found room for its receipt.
    let is_all_kept = place.tally().len() == accepted.len();
    assert!(
        is_all_kept || ended.out.contains("not recorded: the receipt of step"),
        "{}",
        ended.out
    );
    assert!(accepted.len() > 5, "{}", ended.out);
    assert!(ended.out.contains(&format!("  {} of 40 steps accepted", accepted.len())));

    place.ledger(line).code(7).complains(&["No space left on device"]);
    assert!(accepted.is_subset(&self::accepted(place)), "nothing is lost by trying again");

    let before = place.tally().len();
    let accepted = self::accepted(place);
    disk.grow("64m");
    place.ledger(line).code(0).says(&["40 of 40 steps accepted"]);
    for step in &place.tally()[before..] {
        assert!(!accepted.contains(step), "{step} was accepted and was started again");
    }
}

/// Goal: the same is told to programs, each receipt that could not be recorded with its output.
#[test]
fn a_full_disk_is_told_to_programs() {
    let Some(disk) = Disk::new("2500k") else { return };
    disk.place.write("plan.yaml", chatty_plan(40));
    let line = "run plan.yaml --ledger disk/ledger --max-parallel 2 --json";
    let lines = disk.place.ledger(line).code(7).lines();
    let summary = lines.last().unwrap();
    assert_eq!(summary["outcome"], "stopped");
    assert_eq!(summary["exit_code"], 7);
    assert!(summary["error"].as_str().unwrap().contains("No space left"), "{summary}");
    let unrecorded = summary["unrecorded"].as_array().unwrap();
    // What was refused may have been a claim, and what ran then may have found room for its receipt.
    let is_all_kept = disk.place.tally().len() == accepted(&disk.place).len();
    assert!(is_all_kept || !unrecorded.is_empty(), "{summary}");
    for lost in unrecorded {
        // A worker whose own output did not fit on the disk says so itself: it has failed.
        let is_whole = lost["output"].as_str().unwrap().len() == 60_000;
        assert!(is_whole || lost["outcome"] == "failed", "{lost}");
    }
}

/// Goal: a ledger that does not fit on its disk is not made by halves, and the same command works
/// once it fits.
#[test]
fn creation_on_a_full_disk_leaves_nothing_in_the_way() {
    for size in ["4k", "64k", "512k", "1028k"] {
        let Some(disk) = Disk::new(size) else { return };
        let place = &disk.place;
        place.write("plan.yaml", "steps: [{id: one, command: 'echo x >> $TALLY'}]");
        let line = "run plan.yaml --ledger disk/ledger";
        for _ in 0..2 {
            place.ledger(line).code(7).complains(&["No space left on device"]);
            assert!(!place.path("disk/ledger").exists(), "{size}");
        }
        assert!(place.tally().is_empty());
        disk.grow("8m");
        place.ledger(line).code(0).says(&["1 of 1 steps accepted"]);
        assert_eq!(place.tally().len(), 1);
    }
}

fn accepted(place: &Place) -> BTreeSet<String> {
    let state = state_of(&place.path("disk/ledger"));
    ids(state.run_named("plan").unwrap(), StepStatus::Accepted).into_iter().collect()
}
