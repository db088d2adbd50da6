//! The ledger of a command that is given none, or two.

use super::command::{Place, start};

/// Without a folder, every reading command uses `LEDGER_DIR`, or `.ledger`. The name of a command of
/// `inspect` is not taken as a folder, and a ledger cannot be given twice.
#[test]
fn folder_is_optional() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    place.ledger("init --ledger records").code(0);
    for (line, words) in [
        ("inspect", "run plan (1)"),
        ("inspect queue", "queue of run plan"),
        ("inspect step plan a", "step #1 a"),
        ("inspect .ledger queue", "queue of run plan"),
        ("inspect --ledger .ledger queue", "queue of run plan"),
        ("inspect queue --ledger .ledger", "queue of run plan"),
        ("inspect records", "plan_proposed"),
        ("inspect ./records", "no run has been started"),
        ("inspect records --ledger records", ""),
        ("status", "plan: 0 of 1 steps"),
        ("verify", "ledger .ledger: whole"),
        ("root", "5:"),
        ("blobs", "0 blobs"),
        ("export", "plan-ledger export"),
        ("snapshot", ".ledger/snap/"),
    ] {
        place.ledger(line).code(0).says(&[words]);
    }
    let elsewhere = |line: &str, dir: &str| {
        let words: Vec<_> = line.split(' ').collect();
        start(place.command(&words).env("LEDGER_DIR", dir)).end()
    };
    elsewhere("inspect", "records").code(0).says(&["no run has been started"]);
    elsewhere("inspect .ledger", "records").code(0).says(&["run plan (1)"]);
    elsewhere("status --ledger .ledger", "records").code(0).says(&["plan: 0 of 1 steps"]);
    for line in ["inspect", "next"] {
        elsewhere(line, "").code(2);
    }
    for line in ["inspect .ledger --ledger .ledger", "verify .ledger --ledger records"] {
        place.ledger(line).code(2).complains(&["the ledger is given twice"]);
    }
    // An existing file is never overwritten.
    for line in ["export -o plan.yaml", "inspect export --to plan.yaml", "archive --to plan.yaml"] {
        place.ledger(line).code(2).complains(&["plan.yaml already exists"]);
    }
}

/// `export` and `blobs` read an archive like a ledger.
#[test]
fn archive_is_exported_and_its_blobs_are_listed() {
    let place = Place::new();
    // More than the first segment holds, and an output that is stored as a blob.
    let inline = |n: u32| format!("  - {{id: s{n}, command: 'printf %060000d 7'}}\n");
    let inline: String = (0..24).map(inline).collect();
    place.write(
        "plan.yaml",
        format!("steps:\n  - {{id: a, command: 'printf %0100000d 7'}}\n{inline}"),
    );
    place.ledger("run plan.yaml").code(0);
    place.ledger("archive .ledger --to old.tar").code(0);
    place.ledger("export old.tar").code(0).says(&["\"receipt_recorded\""]);
    place.ledger("blobs old.tar --check").code(0).says(&["1 blob"]);
}
