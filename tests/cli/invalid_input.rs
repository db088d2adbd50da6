//! Invalid input: every mistake gets the right exit code and a message with the place, the cause
//! and the remedy, and changes nothing.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use plan_ledger::plan::VALUE_DEPTH_MAX;
use plan_ledger::{Environment, LedgerView};

use super::command::{Ended, Place, report_skipped};

type Snapshot = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// All files below the folder except LOCK, which holds the name of its last owner.
fn content(place: &Place) -> Snapshot {
    let mut found = place.snapshot();
    found.retain(|path, _| path.file_name().is_none_or(|name| name != "LOCK"));
    found
}

/// Runs a command that must fail with `code`, print `words` on standard error only, and change
/// nothing.
#[track_caller]
fn refused(place: &Place, line: &str, code: i32, words: &[&str]) -> Ended {
    let before = content(place);
    let ended = place.ledger(line).code(code).complains(words);
    assert!(content(place) == before, "{line}: the folder has changed");
    assert!(ended.out.is_empty(), "{line}: {}", ended.out);
    for line in ended.err.lines() {
        let is_formatted =
            ["ledger: ", "error: ", "hint: ", "  "].iter().any(|start| line.starts_with(start));
        assert!(is_formatted || !line.contains("panicked"), "{line}");
    }
    ended
}

const GOOD: &str = "steps: [{id: one, command: 'true'}, {id: two, command: 'true'}]";

/// A path that is not a plan file is named with the reason.
#[test]
fn unreadable_plan_file_is_named() {
    let place = Place::new();
    fs::create_dir(place.path("folder")).unwrap();
    place.write("empty.yaml", "");
    place.write("blank.json", " \n");
    place.write("bytes.yaml", [0x74, 0x3a, 0xff, 0xfe, 0x00]);
    place.write("bytes.json", b"\x7fELF\x02\x01\x01\x00\xff\xff");
    place.write("word.yaml", "hello");
    place.write("list.json", "[1, 2]");
    for verb in ["run", "drill"] {
        let line = |file: &str| format!("{verb} {file}");
        refused(&place, &line("none.yaml"), 2, &["none.yaml", "No such file"]);
        refused(&place, &line("folder"), 2, &["folder", "the folder has no task files"]);
        refused(&place, &line("empty.yaml"), 2, &["empty.yaml", "the file is empty"]);
        refused(&place, &line("blank.json"), 2, &["blank.json", "empty"]);
        refused(&place, &line("bytes.yaml"), 2, &["bytes.yaml", "not UTF-8 text", "offset 2"]);
        refused(&place, &line("bytes.json"), 2, &["bytes.json", "not UTF-8 text"]);
        refused(&place, &line("word.yaml"), 2, &["word.yaml"]);
        refused(&place, &line("list.json"), 2, &["list.json"]);
    }
}

/// A value at the depth limit is written, dispatched, shown and folded; one level more is rejected
/// with its place. Such a plan used to pass its own reader and fail as an unreadable record.
#[test]
fn value_depth_is_limited() {
    let place = Place::new();
    let plan = |depth: usize| {
        let value = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        format!(
            r#"{{"extra": {{"x": {value}}}, "steps": [{{"id": "a", "command": "true",
            "extra": {{"x": {value}}}, "fallback": {{"value": {{"value": {value}}}}}}}]}}"#
        )
    };
    place.write("deeper.json", plan(VALUE_DEPTH_MAX + 1));
    let words = ["extra.x", "fallback", "more than 120 levels", "make it flatter"];
    refused(&place, "run deeper.json", 2, &words);
    place.write("deep.json", plan(VALUE_DEPTH_MAX));
    place.ledger("run deep.json --stub --quiet").code(0);
    place.ledger("verify --level replay").code(0);
    for line in ["inspect plan", "inspect step a", "inspect records", "inspect runs deep"] {
        let ended = place.ledger(&format!("{line} --json")).code(0);
        assert!(!ended.lines().is_empty(), "{line}");
    }
}

/// Mistakes in a plan file are reported with line and column, and with the word that was probably
/// meant.
#[test]
fn plan_mistakes_have_line_and_column() {
    let place = Place::new();
    place.write("syntax.yaml", "title: x\nsteps:\n  - id: a\n   goal: b\n");
    refused(&place, "run syntax.yaml", 2, &["syntax.yaml: line 4, column 4"]);
    place.write("quote.yaml", "title: \"x\nsteps: []\n");
    refused(&place, "run quote.yaml", 2, &["quote.yaml: line "]);
    place.write("field.yaml", "steps:\n  - id: a\n    afterr: [b]\n");
    let words = ["line 3, column 5", "unknown field `afterr`", "did you mean `after`?"];
    refused(&place, "run field.yaml", 2, &words);
    place.write("type.yaml", "steps:\n  - id: a\n    priority: high\n");
    refused(&place, "run type.yaml", 2, &["line 3, column 15"]);
    place.write("cut.json", "{\"steps\": [\n  {\"id\": \"a\"");
    refused(&place, "run cut.json", 2, &["cut.json: line 2, column 12"]);
    place.write("twice.yaml", "steps: [{id: a, id: b}]");
    refused(&place, "run twice.yaml", 2, &["line 1, column "]);
}

/// Contradictions in a plan are all reported at once, before anything is dispatched.
#[test]
fn contradictory_plan_is_rejected() {
    let place = Place::new();
    let cycle = "steps:
  - {id: a, after: [c]}\n  - {id: b, after: [a]}\n  - {id: c, after: [b]}\n  - {id: d}\n";
    place.write("cycle.yaml", cycle);
    refused(&place, "run cycle.yaml --stub", 2, &["cycle", "a -> c -> b -> a"]);
    place.write("self.yaml", "steps: [{id: a, after: [a]}]");
    refused(&place, "run self.yaml --stub", 2, &["a -> a"]);
    let many = "steps:
  - {id: a, after: [x, y]}\n  - {id: a}\n  - {id: b, after: [z]}\n  - {id: ''}\n";
    place.write("many.yaml", many);
    let words = ["5 problems", "`x`", "`y`", "`z`", "steps[1] (a).id: the id is taken", "steps[3]"];
    refused(&place, "run many.yaml --stub", 2, &words);
    place.write("none.yaml", "title: nothing\nsteps: []\n");
    refused(&place, "run none.yaml --stub", 2, &["none.yaml", "step"]);
    place.write("gate.yaml", "steps: [{id: a, gate: {question: '', on_timeout: abort}}]");
    let words = ["2 problems", "steps[0] (a).gate.question", "steps[0] (a).gate.on_timeout"];
    refused(&place, "run gate.yaml --stub", 2, &words);
    place.write("cel.yaml", "steps: [{id: a, condition: 'x >'}]");
    refused(&place, "drill cel.yaml --kill-at 1", 2, &["steps[0] (a).condition", "CEL"]);
}

/// A step without a worker is reported before the ledger is created.
#[test]
fn step_without_a_worker_is_rejected() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: one, command: 'true'}, {id: orphan}]");
    let words = ["plan.yaml: step `orphan` has no command", "--worker CMD", "--stub"];
    refused(&place, "run plan.yaml", 2, &words);
    refused(&place, "run plan.yaml --worker=", 2, &words);
    place.ledger("run plan.yaml --worker true").code(0);
}

/// A folder or file of another program is never treated as a ledger or turned into one.
#[test]
fn foreign_folder_is_not_a_ledger() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.write("file", "mine");
    fs::create_dir_all(place.path("folder/of/mine")).unwrap();
    for ledger in ["folder", ".", "/"] {
        let line = format!("run plan.yaml --ledger {ledger}");
        refused(&place, &line, 2, &["no ledger at ", "it has no folder `log`", "ledger init"]);
    }
    refused(&place, "run plan.yaml --ledger file", 2, &["no ledger at file: this is a file"]);
    refused(&place, "run plan.yaml --ledger file/x", 2, &["no ledger at"]);
    let answers = [
        "accept plan one --by me",
        "answer plan one landed --by me",
        "cap --global 3",
        "claim",
        "status",
    ];
    refused(&place, "work -- true", 2, &["no ledger at .ledger: there is no such folder", "init"]);
    for line in answers {
        refused(&place, line, 2, &["no ledger at .ledger: there is no such folder"]);
        refused(&place, &format!("{line} --ledger file"), 2, &["no ledger at file"]);
    }
}

/// Folders that look like the temporary folder of a new ledger are left alone if they hold anything else,
/// and do not get in its way; the rest of an interrupted creation is removed.
#[test]
fn foreign_temporary_folder_is_left_alone() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    for precious in [
        "x.0123456789abcdef.new-ledger.tmp/log/app.log",
        "y.0123456789abcdef.new-ledger.tmp/log/1/2",
        "z.0123456789abcdef.new-ledger.tmp/notes",
        "a.0123456789abcdef.new-ledger.tmp/HEAD/x",
        "c.new-ledger.tmp/LOCK",
        "d.0123456789abcdeF.new-ledger.tmp/LOCK",
    ] {
        let path = place.path(precious);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "precious").unwrap();
        let (name, _) = precious.split_once('.').unwrap();
        place.ledger(&format!("run plan.yaml --ledger {name}")).code(0);
        assert_eq!(place.read(precious), "precious");
    }
    place.write("f.0123456789abcdef.new-ledger.tmp", "precious");
    place.ledger("run plan.yaml --ledger f").code(0);
    assert_eq!(place.read("f.0123456789abcdef.new-ledger.tmp"), "precious");
    let left = "b.0123456789abcdef.new-ledger.tmp";
    fs::create_dir_all(place.path(left).join("log")).unwrap();
    place.write(&format!("{left}/LOCK"), "process 1");
    place.write(&format!("{left}/HEAD"), "half");
    place.write(&format!("{left}/log/00000000000000000001-00000000.seg.tmp"), "half");
    place.ledger("run plan.yaml --ledger b").code(0);
    assert!(!place.path(left).exists());
}

/// A copy of a ledger beside a new one is never deleted, not even under the name of the temporary
/// folder. Creating `l` used to delete a copy named `l.tmp`.
#[test]
fn copy_beside_a_new_ledger_is_not_deleted() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("run plan.yaml --ledger keep").code(0);
    place.ledger("export keep -o keep.jsonl").code(0);
    let copy = |name: &str| {
        let mut copied = Command::new("cp");
        copied.args(["-a", "keep", name]).current_dir(place.path(""));
        assert!(copied.status().unwrap().success(), "{name}");
    };
    for (name, line) in [
        ("l", "init --ledger l"),
        ("m", "import keep.jsonl --ledger m"),
        ("n", "run plan.yaml --ledger n --accept-rollback"),
    ] {
        copy(&format!("{name}.tmp"));
        place.ledger(line).code(0);
        place.ledger(&format!("verify {name}.tmp")).code(0);
        place.ledger(&format!("verify {name}")).code(0);
        fs::remove_dir_all(place.path(name)).unwrap();
        let draft = format!("{name}.0123456789abcdef.new-ledger.tmp");
        copy(&draft);
        place.ledger(line).code(0);
        place.ledger(&format!("verify {draft}")).code(0);
    }
}

/// A file at the path of a new ledger is reported at once. An import used to fail at its last step.
#[test]
fn file_at_the_path_of_a_new_ledger_is_rejected() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("run plan.yaml --ledger keep").code(0);
    place.ledger("export keep -o keep.jsonl").code(0);
    for line in ["init --ledger keep.jsonl", "import keep.jsonl --ledger keep.jsonl"] {
        refused(&place, line, 2, &["keep.jsonl: cannot create a ledger", "a file"]);
    }
}

/// Regression: beside a file, or in a folder with other files, the hint was `ledger init`, which such a path refuses.
#[test]
fn hint_for_a_path_that_is_no_ledger_can_be_followed() {
    let place = Place::new();
    place.write("file", "mine");
    fs::create_dir_all(place.path("folder/of/mine")).unwrap();
    for taken in ["folder", "file/below"] {
        for command in ["claim --worker w", "serve", "status", "work", "pause", "resume"] {
            let more = if command == "work" { " -- true" } else { "" };
            let line = format!("{command} --ledger {taken}{more}");
            let hint = "name the folder of a ledger (--ledger DIR or LEDGER_DIR)";
            refused(&place, &line, 2, &[&format!("no ledger at {taken}"), hint]);
        }
    }
    fs::create_dir(place.path("empty")).unwrap();
    for free in ["empty", "missing", "missing2/below"] {
        let line = format!("claim --worker w --ledger {free}");
        place
            .ledger(&line)
            .code(2)
            .complains(&["no ledger at", &format!("run `ledger init --ledger {free}`")]);
        place.ledger(&format!("init --ledger {free}")).code(0);
        place.ledger(&line).code(2).complains(&["no run yet", "ledger run PLAN"]);
    }
}

/// A ledger without read permission is reported as such, not as missing or damaged.
#[test]
fn unreadable_ledger_is_a_permission_error() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("run plan.yaml").code(0);
    let ledger = place.path(".ledger");
    let before = content(&place);
    fs::set_permissions(&ledger, fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read_dir(&ledger).is_ok() {
        report_skipped("permissions do not bind this user");
    } else {
        place.ledger("run plan.yaml").code(7).complains(&[".ledger", "Permission denied"]);
    }
    fs::set_permissions(&ledger, fs::Permissions::from_mode(0o755)).unwrap();
    assert!(content(&place) == before);
}

/// A ledger with any acknowledged byte flipped is refused with the place and left unchanged; once
/// repaired, it continues.
#[test]
fn damaged_ledger_is_refused_with_the_place() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("run plan.yaml").code(0);
    let (segment, end) = only_segment(&place);
    let whole = fs::read(&segment).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    let mut places: Vec<usize> = (4096..end).step_by(487).collect();
    places.extend([0, 20, 4095, 4096, end - 1]);
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&segment, &damaged).unwrap();
        let words = [name, "nothing was changed", "offset ", "ledger inspect"];
        // A header that cannot be trusted belongs to no record.
        let record = if at < 4096 { vec![] } else { vec!["record "] };
        let words = [&words[..], &record].concat();
        refused(&place, "run plan.yaml", 4, &words);
    }
    fs::write(&segment, &whole[..whole.len() - 1]).unwrap();
    refused(&place, "run plan.yaml", 4, &[name, "expected a file of 1048576 bytes"]);
    fs::write(&segment, &whole).unwrap();
    let head = place.path(".ledger/HEAD");
    let bytes = fs::read(&head).unwrap();
    fs::remove_file(&head).unwrap();
    refused(&place, "run plan.yaml", 4, &["HEAD", "nothing was changed"]);
    fs::write(&head, bytes).unwrap();
    fs::remove_file(&segment).unwrap();
    refused(&place, "run plan.yaml", 4, &[".ledger", "there is no segment"]);
    fs::write(&segment, &whole).unwrap();
    place.ledger("run plan.yaml").code(0).complains(&["run plan is done"]);
}

/// A ledger in a newer format asks for a newer program and is not called damaged.
#[test]
fn newer_format_is_not_damage() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("run plan.yaml").code(0);
    let (segment, _) = only_segment(&place);
    let mut bytes = fs::read(&segment).unwrap();
    bytes[MAJOR] += 1;
    let crc = crc32fast::hash(&bytes[..CRC]);
    bytes[CRC..CRC + 4].copy_from_slice(&crc.to_le_bytes());
    fs::write(&segment, bytes).unwrap();
    let ended = refused(&place, "run plan.yaml", 6, &["format version 2", "newer `ledger`"]);
    assert!(!ended.err.contains("damage"), "{}", ended.err);
}

/// Mistakes on the command line are reported with what was expected.
#[test]
fn invalid_command_line_is_explained() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    refused(&place, "", 2, &["Usage: ledger"]);
    refused(&place, "runn plan.yaml", 2, &["`runn`", "`ledger run`"]);
    refused(&place, "run plan.yaml --max-paralel 3", 2, &["--max-paralel", "--max-parallel"]);
    refused(&place, "run plan.yaml --max-parallel 0", 2, &["--max-parallel"]);
    refused(&place, "run plan.yaml --stub --worker x", 2, &["--worker", "--stub"]);
    refused(&place, "run plan.yaml --reason x", 2, &["--replan"]);
    refused(&place, "accept", 2, &["STEP"]);
    assert!(place.ledger("help exit-codes").code(0).out.contains("Exit codes"));
    assert!(place.ledger("run --help").code(0).out.contains("--max-parallel"));
    place.ledger("--version").code(0).says(&["ledger "]);
}

/// Offsets of fields that every version of the format keeps.
const MAJOR: usize = 8;
const CRC: usize = 4092;

/// The ledger's only segment, and the end of its acknowledged bytes.
fn only_segment(place: &Place) -> (PathBuf, usize) {
    let ledger = place.path(".ledger");
    let view = LedgerView::open(&ledger, &Environment::system()).unwrap();
    let head = view.log().head().expect("a ledger that was closed has a HEAD");
    let end = usize::try_from(head.data_end).unwrap();
    let mut files = fs::read_dir(ledger.join("log")).unwrap();
    let segment = files.next().unwrap().unwrap().path();
    assert!(files.next().is_none() && end > 4096 + 10 * 128);
    (segment, end)
}

/// With `--json` an invalid command line is reported as a JSON line as well. Words after `--`
/// belong to the worker.
#[test]
fn usage_error_is_json_with_the_json_flag() {
    let place = Place::new();
    place.ledger("init").code(0);
    for line in
        ["claim --nosuch --json", "receipt --json soon", "inspect --nosuch --json", "fly --json"]
    {
        let ended = place.ledger(line).code(2);
        let lines = ended.lines();
        assert_eq!((lines.len(), &lines[0]["type"]), (1, &"error".into()), "{ended:?}");
        assert_eq!((&lines[0]["kind"], &lines[0]["exit_code"]), (&"usage".into(), &2.into()));
        let message = lines[0]["message"].as_str().unwrap();
        assert!(ended.err.contains(message), "{ended:?}");
    }
    for line in ["claim --nosuch", "work --nosuch -- agent --json"] {
        assert_eq!(place.ledger(line).code(2).out, "", "{line}");
    }
}

/// Run names that could be mistaken for other text or for a run number are rejected.
#[test]
fn ambiguous_run_name_is_rejected() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    for name in ["", " ", "a\nrun b: done", "\u{1b}[2J", "#1", "#7"] {
        let lines: [&[&str]; 3] = [
            &["plan", "propose", "plan.yaml", "--run", name],
            &["run", "plan.yaml", "--stub", "--run", name],
            &["fork", "plan", "--at", "5", "--name", name],
        ];
        for line in lines {
            let ended = place.ledger_with(line).code(2);
            assert!(ended.err.contains("name"), "{ended:?}");
        }
    }
    for line in ["plan propose plan.yaml --run=-x", "fork plan --at 5 --name=-x"] {
        place.ledger(line).code(2).complains(&["begins with `-`"]);
    }
    assert_eq!(place.state().runs.len(), 1);
    for name in ["#a", "7", "\u{fc}ber uns"] {
        place.ledger_with(&["plan", "propose", "plan.yaml", "--run", name]).code(0);
    }
}

/// Names of workers and variables are one line, so that they cannot forge lines of output.
#[test]
fn multi_line_names_are_rejected() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let lines: [&[&str]; 5] = [
        &["claim", "--worker", "w\nledger: fine"],
        &["claim", "--worker", "\u{1b}[2J"],
        &["set", "", "1"],
        &["set", " ", "1"],
        &["set", "a\nb", "1"],
    ];
    for line in lines {
        place.ledger_with(line).code(2).complains(&["use one printable line"]);
    }
    place.ledger("fork plan --at 0 --name other").code(2).complains(&["--at <SEQ>"]);
    assert!(place.state().in_flight.is_empty());
}

/// A file without end is read only up to the size limit.
#[test]
fn endless_file_is_read_up_to_the_limit() {
    let place = Place::new();
    place.write("plan.yaml", GOOD);
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let receipt = format!("receipt 5-{} --output @/dev/zero", "9f".repeat(16));
    for line in ["set v @/dev/zero", &receipt] {
        refused(&place, line, 6, &["/dev/zero: expected at most 16777216 bytes, found more"]);
    }
}

/// `--help` and `--version` fail when their output cannot be written.
#[test]
fn unwritable_help_is_a_failure() {
    let place = Place::new();
    for word in ["--help", "--version"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let status = place.command(&[word]).stdout(full).status().unwrap();
        assert_eq!(status.code(), Some(7), "{word}");
    }
}

/// A step with a long goal is shown in one line, and the suggested command for a step whose id
/// looks like an option works.
#[test]
fn unusual_step_is_shown_in_one_line_and_can_be_named() {
    let place = Place::new();
    place.write("plan.yaml", "steps: [{id: '-x', goal: \"\\nfirst\\nsecond\"}]");
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml").code(0);
    let token =
        place.ledger("claim --json").code(0).lines()[0]["token"].as_str().unwrap().to_owned();
    let status = place.ledger("status").code(0).out;
    assert!(
        status.contains("working on: #1 -x (first), by worker") && !status.contains("second"),
        "{status}"
    );
    place.ledger(&format!("receipt {token} --failed deterministic")).code(0);
    let next = place.ledger("next plan --json").lines()[0].clone();
    assert_eq!(next["command"], "ledger retry plan '#1'", "{next}");
    place.ledger_with(&["retry", "plan", "#1"]).code(0);
}

/// Goal: an old spelling of a command names what replaces it, with and without the folder of the ledger.
#[test]
fn replaced_spellings_name_what_replaces_them() {
    let place = Place::new();
    place.ledger("init").code(0);
    for (old, new) in [
        ("inspect approvals", "ledger questions --decided"),
        ("inspect at", "ledger inspect runs --at SEQ"),
        ("inspect blobs", "ledger blobs DIR"),
        ("inspect map", "ledger inspect explain"),
        ("inspect summary", "ledger inspect DIR"),
        ("inspect verify", "ledger verify DIR"),
        ("inspect view", "ledger status --view VIEW"),
    ] {
        let (command, view) = old.split_once(' ').unwrap();
        for line in [old.to_owned(), format!("{old} --json"), format!("{command} .ledger {view}")] {
            let ended = place.ledger(&line).code(2);
            ended.complains(&[&format!("`{old}` was replaced"), &format!("`{new}`")]);
        }
    }
}
