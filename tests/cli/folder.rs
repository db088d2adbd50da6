//! The ledger of a command that is given none, or two.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::Command;

use super::command::{Place, report_skipped, start};

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
    // The folder that has the ledger is not the ledger.
    for line in ["inspect . step plan a", "status .", "verify .", "next --ledger ."] {
        place.ledger(line).code(2).complains(&["no ledger at .", "did you mean ./.ledger?"]);
    }
    place.ledger("inspect ./.ledger step plan a").code(0);
    // An existing file is never overwritten.
    for line in
        ["export -o plan.yaml", "export --format otlp -o plan.yaml", "archive --to plan.yaml"]
    {
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

/// Story: a folder that a shell was in was replaced by the new ledger: the shell was in a deleted folder.
/// Goal: an empty folder becomes a ledger and stays the same folder, also as the working folder; other
/// users lose access to it. `init`, `run` and `import` need no `mkdir`: folders above are made.
#[test]
fn empty_folder_becomes_a_ledger() {
    let place = Place::new();
    fs::create_dir(place.path("l")).unwrap();
    fs::set_permissions(place.path("l"), fs::Permissions::from_mode(0o755)).unwrap();
    let inode = fs::metadata(place.path("l")).unwrap().ino();
    let inside = |words: &[&str]| start(place.command(words).current_dir(place.path("l"))).end();
    inside(&["init", "--ledger", "."]).code(0).says(&[".: created an empty ledger"]);
    inside(&["note", "hello", "--ledger", "."]).code(0);
    inside(&["verify", "."]).code(0);
    let found = fs::metadata(place.path("l")).unwrap();
    assert_eq!((found.ino(), found.mode() & 0o777), (inode, 0o700));
    place.ledger("init --ledger l").code(0).says(&["already a ledger"]);

    place.write("plan.yaml", "steps: [{id: a, command: 'true'}]");
    fs::create_dir(place.path("empty")).unwrap();
    place.ledger("run plan.yaml --ledger empty").code(0);
    place.ledger("run plan.yaml --ledger deep/er/l").code(0);
    place.ledger("init --ledger a/b/c").code(0).says(&["a/b/c: created"]);
    place.ledger("export l -o l.jsonl").code(0);
    place.ledger("export --ledger deep/er/l -o deep.jsonl").code(0);
    fs::create_dir_all(place.path("copy/lost+found")).unwrap();
    place.ledger("import l.jsonl --ledger copy").code(0);
    place.ledger("import deep.jsonl --ledger f/g").code(0);
    for ledger in ["empty", "deep/er/l", "a/b/c", "copy", "f/g"] {
        place.ledger(&format!("verify {ledger}")).code(0);
    }
    place.ledger("import l.jsonl --ledger copy").code(2).complains(&["there is one already"]);

    fs::create_dir(place.path("full")).unwrap();
    place.write("full/notes", "mine");
    for line in ["init --ledger full", "import l.jsonl --ledger full"] {
        let words = ["full: cannot create a ledger: the folder is not empty: it has `notes`"];
        place.ledger(line).code(2).complains(&words).complains(&["hint: choose another name"]);
    }
    assert_eq!(place.read("full/notes"), "mine");
    assert_eq!(fs::read_dir(place.path("full")).unwrap().count(), 1);
}

/// Two processes that create a ledger in the same empty folder: both have it afterwards.
#[test]
fn empty_folder_becomes_one_ledger() {
    let place = Place::new();
    for round in 0..4 {
        let name = format!("l{round}");
        fs::create_dir(place.path(&name)).unwrap();
        let words = ["init", "--ledger", &name];
        let racers: Vec<_> = (0..4).map(|_| start(&mut place.command(&words))).collect();
        let ended: Vec<_> = racers.into_iter().map(|racer| racer.end().code(0)).collect();
        let created = ended.iter().filter(|it| it.out.contains("created")).count();
        assert_eq!(created, 1, "{ended:?}");
        place.ledger(&format!("verify {name}")).code(0);
    }
}

/// A mount point becomes a ledger: it cannot be replaced by a rename.
#[test]
fn mount_point_becomes_a_ledger() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: a, command: 'true'}]");
    let mounted = |options: &[&str], name: &str| {
        fs::create_dir_all(place.path(name)).unwrap();
        let mut mount = Command::new("mount");
        mount.args(options).arg(place.path(name));
        mount.output().is_ok_and(|output| output.status.success())
    };
    fs::create_dir(place.path("source")).unwrap();
    let source = place.path("source").display().to_string();
    let kinds = [("tmpfs", vec!["-t", "tmpfs", "tmpfs"]), ("bound", vec!["--bind", &source])];
    for (name, options) in kinds {
        if !mounted(&options, name) {
            report_skipped("no file system can be mounted here");
            continue;
        }
        fs::create_dir(place.path(name).join("lost+found")).unwrap();
        place.ledger(&format!("init --ledger {name}")).code(0);
        place.ledger(&format!("run plan.yaml --ledger {name}")).code(0);
        let verified = place.ledger(&format!("verify {name}"));
        // A mount that stays is not a wrong result.
        let _ = Command::new("umount").arg("-l").arg(place.path(name)).status();
        verified.code(0);
    }
}
