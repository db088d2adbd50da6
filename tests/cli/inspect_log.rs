//! `ledger inspect`: the log file by file, record by record and byte by byte; exports; completions
//! and the manual.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::log::{Log, LostRecords, WriterNote, WriterReason};
use plan_ledger::{Environment, ErrorKind, Json, Ledger, LedgerView, RunPolicy, State, state_hash};
use serde_json::{Value, json};

use crate::command::{Place, start, wait_until};
use crate::file_tampering::{on_disk, specimen};
use crate::inspect::{
    change, dispatch, environment, frame_of, large, last_seq, look, reopen, segments, small,
    success,
};
use crate::lab::dir;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no number: {value}"))
}

/// Goal: each file of the log is described, with what its header and footer say.
#[test]
fn segments_are_listed() {
    let place = large();
    let files = segments(&place.dir);
    let lines = look(&place.dir, &["segments", "--json"]).of_type("segment");
    assert_eq!(lines.len(), files.len());
    for (ordinal, (line, file)) in lines.iter().zip(&files).enumerate() {
        assert_eq!(line["ordinal"], json!(ordinal));
        assert_eq!(line["path"], json!(file.display().to_string()));
        assert_eq!(number(&line["bytes"]), file.metadata().unwrap().len());
        let is_last = ordinal + 1 == files.len();
        assert_eq!(line["stage"], if is_last { "active" } else { "sealed" });
        assert_eq!(line["footer"].is_object(), !is_last);
    }
    let ends: Vec<_> = lines.iter().map(|line| number(&line["last_seq"])).collect();
    assert_eq!(*ends.last().unwrap(), last_seq(&place.dir));
    look(&place.dir, &["segments"]).has("sealed").has("active").has("rotate");

    change(&files[1], |bytes| bytes[40] ^= 1);
    let look = look(&place.dir, &["segments"]);
    assert_eq!(look.code, 4);
    look.has("header");
}

/// Goal: both slots of HEAD are shown, and one that is damaged is said to be.
#[test]
fn head_is_shown_slot_by_slot() {
    let place = small();
    let last = last_seq(&place.dir);
    let slots = look(&place.dir, &["head", "--json"]).of_type("head_slot");
    let counting: Vec<_> = slots.iter().filter(|slot| slot["counts"] == true).collect();
    assert_eq!((slots.len(), counting.len()), (2, 1));
    assert_eq!(number(&counting[0]["head"]["durable_seq"]), last);
    assert_eq!(counting[0]["head"]["state"], "closed");
    look(&place.dir, &["head"]).has(&format!("record {last}, chain ")).has("the test");

    let offset = usize::try_from(number(&counting[0]["offset"])).unwrap();
    change(&place.dir.join("HEAD"), |bytes| bytes[offset + 50] ^= 1);
    look(&place.dir, &["head"]).has("a copy is damaged");
    change(&place.dir.join("HEAD"), |bytes| {
        (1..8).for_each(|copy| bytes[offset + copy * 512 + 50] ^= 1);
    });
    look(&place.dir, &["head"]).has("not valid");
    fs::remove_file(place.dir.join("HEAD")).unwrap();
    let look = look(&place.dir, &["head", "--json"]);
    assert_eq!(look.code, 4);
    assert!(look.of_type("head_slot").iter().all(|slot| slot["valid"] == false));
}

/// Goal: the bytes of a record are those of the file, every one with the name of its field.
#[test]
fn a_record_is_shown_byte_by_byte() {
    let place = small();
    for seq in 1..=last_seq(&place.dir) {
        let text = seq.to_string();
        let line =
            look(&place.dir, &["records", &text, "--hex", "--json"]).of_type("record").remove(0);
        let (offset, size) = frame_of(&place.dir, seq);
        let bytes = &fs::read(&segments(&place.dir)[0]).unwrap()[offset..offset + size];
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(line["frame"], json!(hex));
        let fields = line["fields"].as_array().unwrap();
        let parts: String = fields.iter().map(|field| field["hex"].as_str().unwrap()).collect();
        assert_eq!(parts, hex, "the fields cover every byte once");
        let of = |name: &str| fields.iter().find(|field| field["name"] == name).unwrap();
        assert_eq!(number(&of("seq")["number"]), seq);
        assert_eq!(of("kind")["number"], line["kind_number"]);
        assert_eq!(of("chain")["hex"], line["chain"]);
    }
    let look_of = |args: &[&str]| look(&place.dir, args);
    look_of(&["records", "1", "--hex"]).has("payload_length").has("50 4c 46 31").has("run_started");
    let beyond = look_of(&["records", "9999"]);
    assert!(beyond.code == 2 && beyond.err.contains("expected a record up to"), "{}", beyond.err);
    assert_eq!(look_of(&["records", "0"]).code, 2);
    let (offset, _) = frame_of(&place.dir, 3);
    change(&segments(&place.dir)[0], |bytes| bytes[offset + 50] ^= 1);
    let damaged = look(&place.dir, &["records", "3"]);
    assert_eq!(damaged.code, 4);
    damaged.has("damage: ").has(&format!("bytes {offset} to"));
    assert_eq!(look(&place.dir, &["records", "2"]).code, 0);
}

fn seqs(dir: &Path, args: &[&str]) -> Vec<u64> {
    let args = [&["records", "--json"], args].concat();
    look(dir, &args).of_type("record").iter().map(|line| number(&line["seq"])).collect()
}

/// Goal: each way to choose records chooses exactly those that it says.
#[test]
fn records_are_chosen_by_step_time_order_and_number() {
    let place = small();
    let all = look(&place.dir, &["records", "--json"]).of_type("record");
    let wanted = |holds: &dyn Fn(&Value) -> bool| -> Vec<u64> {
        all.iter().filter(|line| holds(line)).map(|line| number(&line["seq"])).collect()
    };
    let step = wanted(&|line| line["event"]["step"] == 2);
    assert!(step.len() > 2);
    assert_eq!(seqs(&place.dir, &["--run", "small", "--step", "slow"]), step);
    assert_eq!(seqs(&place.dir, &["--run", "#1", "--step", "#2"]), step);
    let every = wanted(&|_| true);
    let reversed: Vec<_> = every.iter().rev().copied().collect();
    assert_eq!(seqs(&place.dir, &["--reverse"]), reversed);
    assert_eq!(seqs(&place.dir, &["--reverse", "--limit", "3"]), reversed[..3]);
    assert_eq!(seqs(&place.dir, &["--limit", "3", "--from", "4"]), every[3..6]);
    assert_eq!(seqs(&place.dir, &["--reverse", "--from", "4", "--to", "6"]), [6, 5, 4]);
    let middle = &all[all.len() / 2]["time"];
    let (text, micros) = (middle["utc"].as_str().unwrap(), number(&middle["micros"]));
    let since = wanted(&|line| number(&line["time"]["micros"]) >= micros);
    let until = wanted(&|line| number(&line["time"]["micros"]) <= micros);
    assert_eq!(seqs(&place.dir, &["--since", text]), since);
    assert_eq!(seqs(&place.dir, &["--until", text]), until);
    assert!(seqs(&place.dir, &["--until", "99999d"]).is_empty());

    for (args, says) in [
        (&["--since", "yesterday"][..], "expected a time"),
        (&["--limit", "0"], "0"),
        (&["--follow", "--reverse"], "cannot be used with"),
        (&["--run", "small", "--step", "nowhere"], "no step nowhere"),
    ] {
        let look = look(&place.dir, &[&["records"], args].concat());
        assert!(look.code == 2 && look.err.contains(says), "{args:?}: {}", look.err);
    }
}

/// A follower sees each record once and in order while a writer appends.
#[test]
fn records_are_followed_while_they_are_written() {
    let place = small();
    let before = last_seq(&place.dir);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    let limit = (before + 2).to_string();
    command
        .arg("inspect")
        .arg(&place.dir)
        .args(["records", "--follow", "--json", "--limit", &limit]);
    let running = start(command.stdin(Stdio::null()));
    wait_until("what was there is printed", || running.said(&format!("\"seq\":{before},")));
    let ledger = reopen(&place.dir);
    let run = ledger.state().unwrap().run_named("small").unwrap().id;
    for value in 0..3 {
        ledger.set_variable(run, "v", Json::new(&json!(value)), None, "ana").unwrap();
    }
    let lines = running.end().code(0).lines();
    let seqs: Vec<_> = lines
        .iter()
        .filter(|line| line["type"] == "record")
        .map(|line| number(&line["seq"]))
        .collect();
    assert_eq!(seqs, (1..=before + 2).collect::<Vec<_>>());
    ledger.close().unwrap();
}

/// The regions of each file follow each other from its first byte to its last.
#[track_caller]
fn assert_covered(regions: &[Value]) -> BTreeMap<String, u64> {
    let mut ends = BTreeMap::new();
    for region in regions {
        let path = region["path"].as_str().unwrap().to_owned();
        let end = ends.entry(path).or_insert(0);
        assert_eq!(number(&region["offset"]), *end, "{region}");
        *end = number(&region["end"]);
    }
    ends
}

/// Goal: the map has every byte of every segment once, and calls damage what was damaged.
#[test]
fn the_map_covers_every_byte() {
    let place = large();
    let map = |code: i32| {
        let look = look(&place.dir, &["explain", "--json"]);
        assert_eq!(look.code, code, "{}", look.out);
        look.of_type("region")
    };
    let regions = map(0);
    let files = segments(&place.dir);
    let lengths: BTreeMap<_, _> = files
        .iter()
        .map(|file| (file.display().to_string(), file.metadata().unwrap().len()))
        .collect();
    assert_eq!(assert_covered(&regions), lengths);
    let classes = |regions: &[Value]| -> Vec<String> {
        regions.iter().map(|region| region["class"].as_str().unwrap().to_owned()).collect()
    };
    let sealed = ["header", "records", "index", "footer"];
    assert_eq!(classes(&regions)[..4], sealed);
    assert_eq!(classes(&regions)[regions.len() - 3..], ["header", "records", "free"]);
    look(&place.dir, &["explain", "--segment", "0"]).has("records 1 to ").has("footer");
    assert_eq!(look(&place.dir, &["explain", "--segment", "77"]).code, 2);

    let (offset, size) = frame_of(&place.dir, 3);
    change(&files[0], |bytes| bytes[offset + 60] ^= 1);
    let regions = map(4);
    assert_eq!(assert_covered(&regions), lengths);
    let damaged: Vec<_> = regions.iter().filter(|region| region["class"] == "damaged").collect();
    assert_eq!(damaged.len(), 1);
    assert_eq!(number(&damaged[0]["offset"]), u64::try_from(offset).unwrap());
    assert_eq!(number(&damaged[0]["end"]), u64::try_from(offset + size).unwrap());
    assert_eq!((&damaged[0]["first_seq"], &damaged[0]["last_seq"]), (&json!(3), &json!(3)));
}

/// Goal: what a crash left is told by the evidence and the row that opening goes by.
#[test]
fn what_stands_at_an_offset_is_explained() {
    let place = small();
    let (offset, size) = frame_of(&place.dir, last_seq(&place.dir));
    let end = offset + size;
    let explain = |at: usize, code: i32| {
        let look = look(&place.dir, &["explain", &at.to_string(), "--json"]);
        assert_eq!(look.code, code, "{}{}", look.out, look.err);
        look.of_type("explanation").remove(0)
    };
    let free = explain(end, 0);
    assert_eq!((&free["row"]["label"], &free["verdict"]), (&json!("7"), &json!("clean")));
    assert_eq!(free["evidence"], "RKQZ");
    let record = explain(offset, 0);
    assert_eq!((&record["region"]["class"], &record["row"]), (&json!("records"), &Value::Null));
    assert_eq!(explain(0, 0)["region"]["class"], "header");
    look(&place.dir, &["explain", &end.to_string()]).has("row 7 of the recovery table");
    let beyond = look(&place.dir, &["explain", "99999999999"]);
    assert!(beyond.code == 2 && beyond.err.contains("below that"), "{}", beyond.err);

    // A write that was cut short, and whose first sector never came.
    change(&segments(&place.dir)[0], |bytes| bytes[end + 1_000] = 7);
    let torn = explain(end, 0);
    assert_eq!((&torn["region"]["class"], &torn["verdict"]), (&json!("torn"), &json!("torn")));
    assert_eq!(torn["row"]["label"], "11");
    // The last record, which HEAD covers.
    change(&segments(&place.dir)[0], |bytes| bytes[offset + 60] ^= 1);
    let damaged = explain(offset, 4);
    assert_eq!(damaged["region"]["class"], "damaged");
    assert_eq!((&damaged["row"]["label"], &damaged["verdict"]), (&json!("5b"), &json!("corrupt")));
}

/// Goal: each snapshot is read and checked, and one that is bad costs nothing.
#[test]
fn snapshots_are_listed_and_checked() {
    let place = small();
    let ledger = reopen(&place.dir);
    let made = ledger.snapshot::<State>().unwrap();
    ledger.close().unwrap();
    let files = |code: i32| {
        let look = look(&place.dir, &["snapshots", "--json"]);
        assert_eq!(look.code, code, "{}", look.out);
        look.of_type("snapshot_file")
    };
    let good = files(0).remove(0);
    assert_eq!((number(&good["seq"]), &good["usable"]), (made.seq, &json!(true)));
    assert_eq!(good["state_hash"], json!(made.state_hash.to_string()));
    look(&place.dir, &["snapshots"]).has("state v").has(&made.seq.to_string());
    // The summary stands on it, and says so.
    let ledger = &look(&place.dir, &["--json"]).of_type("ledger")[0];
    assert_eq!(number(&ledger["folded_from"]), made.seq);

    change(&made.path, |bytes| *bytes.last_mut().unwrap() ^= 1);
    let bad = files(0).remove(0);
    assert_eq!(bad["usable"], false);
    assert!(bad["problem"].as_str().unwrap().contains("not used"), "{bad}");
    assert_eq!(look(&place.dir, &["--json"]).of_type("ledger")[0]["folded_from"], Value::Null);
}

/// Goal: there is one implementation of each: the same bytes by either name.
#[test]
fn the_same_by_either_name() {
    let place = large();
    let dir = place.dir.to_str().unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ledger")).args(args).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    for (one, two) in [
        (&["export", dir][..], &["export", "--ledger", dir][..]),
        (&["export", dir], &["export", dir, "--format", "jsonl"]),
    ] {
        assert_eq!(run(one), run(two), "{one:?}");
    }
}

/// Goal: reading from a snapshot on finds what reading everything finds, at every length of the
/// log; and where something is wrong, everything is read.
#[test]
fn the_newest_state_is_the_same_from_a_snapshot() {
    let disk = SimDisk::new();
    let environment = Environment { snapshot_every: Some(8), ..on_disk(&disk) };
    let ledger = Ledger::create(&dir(), &environment).unwrap();
    let steps: Vec<_> = (0..12).map(|n| json!({"id": format!("s{n}")})).collect();
    let plan = serde_json::from_value(json!({"steps": steps})).unwrap();
    let run = ledger.start_run("r", &plan, RunPolicy::default()).unwrap();
    let mut fast = 0;
    for _ in 0..12 {
        let token = dispatch(&ledger, run);
        ledger.record_receipt(token, success(&json!(1))).unwrap();
        let view = LedgerView::open(&dir(), &environment).unwrap();
        let (all, recent) = (view.fold(u64::MAX).unwrap(), view.fold_recent().unwrap());
        assert_eq!(state_hash(&all.state), state_hash(&recent.state));
        assert_eq!((all.records, &all.last), (recent.records, &recent.last));
        fast += u32::from(recent.read_from() > 1);
    }
    assert!(fast > 6, "a snapshot was hardly ever used");
    drop(ledger);

    let specimen = specimen();
    let environment = on_disk(&specimen.disk);
    let log: Vec<_> =
        specimen.files.iter().filter(|path| path.starts_with(dir().join("log"))).collect();
    let fold = || LedgerView::open(&dir(), &environment).unwrap().fold_recent().unwrap();
    assert!(fold().read_from() > 1);
    plan_ledger::internals::storage::Storage::remove(&specimen.disk, log[0]).unwrap();
    let damaged = fold();
    assert!(damaged.read_from() == 1 && !damaged.damage.is_empty(), "{damaged:?}");
}

/// Goal: the database has what the records say, and opens in SQLite itself.
#[cfg(feature = "sqlite")]
#[test]
fn a_ledger_as_a_database() {
    let place = small();
    let file = place.dir.with_file_name("out.sqlite");
    let path = file.to_str().unwrap();
    let export = &["export", "--format", "sqlite", "-o", path];
    assert_eq!(look(&place.dir, export).code, 0);
    let again = look(&place.dir, export);
    assert!(again.code == 2 && again.err.contains("already exists"), "{}", again.err);
    let database = rusqlite::Connection::open(&file).unwrap();
    let ask = |query: &str| -> Vec<String> {
        let mut statement = database.prepare(query).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    assert_eq!(ask("PRAGMA integrity_check"), ["ok"]);
    let last = last_seq(&place.dir).to_string();
    assert_eq!(ask("SELECT CAST(count(*) AS TEXT) FROM records"), std::slice::from_ref(&last));
    assert_eq!(ask("SELECT value FROM meta WHERE name = 'last_seq'"), [last]);
    let statuses = "SELECT id || ' ' || status FROM steps ORDER BY step";
    let state = LedgerView::open(&place.dir, &environment()).unwrap().fold(u64::MAX).unwrap().state;
    let run = state.run_named("small").unwrap();
    let expected: Vec<_> =
        run.steps.iter().map(|step| format!("{} {}", step.id(), step.status)).collect();
    assert_eq!(ask(statuses), expected);
    let hash = "SELECT value FROM meta WHERE name = 'state_hash'";
    assert_eq!(ask(hash), [state_hash(&state).to_string()]);
    let fates = "SELECT outcome FROM attempts ORDER BY token";
    assert_eq!(
        ask(fates),
        ["failed", "accepted", "lost", "reported", "outcome_unknown", "failed"],
        "each attempt of the small ledger, in the order of dealing"
    );
    let costs = "SELECT CAST(count(*) AS TEXT) FROM receipts JOIN attempts USING (token)";
    assert_eq!(ask(costs), ["5"]);
    let refused = look(&place.dir, &["export", "--format", "sqlite"]);
    assert!(refused.code == 2 && refused.err.contains("-o FILE"), "{}", refused.err);
    let (offset, _) = frame_of(&place.dir, 5);
    change(&segments(&place.dir)[0], |bytes| bytes[offset + 60] ^= 1);
    let damaged = place.dir.with_file_name("damaged.sqlite");
    let export = &["export", "--format", "sqlite", "-o", damaged.to_str().unwrap()];
    assert_eq!(look(&place.dir, export).code, 4);
    let database = rusqlite::Connection::open(&damaged).unwrap();
    let ask = |query: &str| -> String { database.query_row(query, [], |row| row.get(0)).unwrap() };
    assert_eq!(ask("SELECT CAST(count(*) AS TEXT) FROM damage"), "1");
    assert_eq!(ask("SELECT value FROM meta WHERE name = 'complete'"), "no");
}

/// Goal: a run is a trace and each attempt one span of it, with the same identifiers in every export.
#[test]
fn spans_of_a_ledger_have_stable_identifiers() {
    let place = small();
    let export = || look(&place.dir, &["export", "--format", "otlp"]).out;
    let first = export();
    assert_eq!(first, export());
    let exported: Value = serde_json::from_str(&first).unwrap();
    let spans = exported["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let ids: BTreeSet<&str> = spans.iter().map(|span| span["spanId"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), spans.len(), "each span has its own identifier");
    let (runs, attempts): (Vec<&Value>, Vec<&Value>) =
        spans.iter().partition(|span| span["parentSpanId"].is_null());
    assert_eq!(attempts.len(), 6);
    for span in attempts {
        let run = runs.iter().find(|run| run["spanId"] == span["parentSpanId"]);
        assert_eq!(run.expect("its run is exported")["traceId"], span["traceId"]);
        let nanos = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span}");
        assert_eq!(span["traceId"].as_str().unwrap().len(), 32);
    }
}

/// Goal: an export that fails leaves nothing behind, and one of a damaged ledger says so.
#[test]
fn an_export_is_whole_or_not_there() {
    let place = small();
    let nowhere = place.dir.with_file_name("no folder").join("out.json");
    let failed = look(&place.dir, &["export", "--format", "otlp", "-o", nowhere.to_str().unwrap()]);
    assert_eq!(failed.code, 7, "{}", failed.err);
    assert!(!nowhere.exists());
    let (offset, _) = frame_of(&place.dir, 5);
    change(&segments(&place.dir)[0], |bytes| bytes[offset + 60] ^= 1);
    assert_eq!(look(&place.dir, &["export", "--format", "otlp"]).code, 4);
    let beside: Vec<_> = fs::read_dir(place.dir.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(beside, ["a ledger"]);
}

/// Goal: shells and the manual know every command.
#[test]
fn completions_and_manual_know_every_command() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let line = format!("completions {shell}");
        place.ledger(&line).code(0).says(&["inspect", "verify", "expect-head"]);
    }
    place.ledger("completions tcsh").code(2).complains(&["tcsh"]);
    place.ledger("man").code(0).says(&[".TH ledger 1", "Exit codes"]);
    place.ledger("man --to pages").code(0);
    for page in ["ledger.1", "ledger-run.1", "ledger-inspect.1", "ledger-inspect-records.1"] {
        let text = fs::read_to_string(place.path("pages").join(page)).unwrap();
        assert!(text.contains(".SH SYNOPSIS"), "{page}");
    }
    place.write("file", "");
    place.ledger("man --to file/pages").code(7);
}

/// Regression: writer notes had a number instead of a name, and no content.
#[test]
fn writer_notes_have_a_name_and_their_content() {
    let place = small();
    let environment = environment();
    let log = loop {
        match Log::open(&place.dir, environment.log_options(), environment.clock.now()) {
            // A process that another test has just forked may share the lock.
            Err(error) if error.kind() == ErrorKind::Locked => {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            opened => break opened.unwrap().0,
        }
    };
    let lost = LostRecords { first: 5, last: 9, chain: "0f".repeat(32) };
    let first = WriterNote::new(1, &[0xA1; 16], WriterReason::Create, None);
    let third = WriterNote::new(3, &[0xB2; 16], WriterReason::Takeover, Some((1, [0xA1; 16])));
    let third = third.with_lost(Some(lost));
    let invalid = WriterNote { epoch: 0, ..first.clone() };
    for note in [&first, &third, &invalid] {
        log.append(&[note.record()], environment.clock.now()).unwrap();
    }
    let last = log.last_durable().seq;
    log.close().unwrap();

    let lines = look(&place.dir, &["records", "--kind", "writer_note", "--json"]).of_type("record");
    let [first, third, invalid] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&first["kind"], &first["kind_number"]), (&json!("writer_note"), &json!(0x8008)));
    let node = |byte: &str| byte.repeat(16);
    assert_eq!(
        first["event"],
        json!({ "epoch": 1, "node": node("a1"), "why": "create", "before": null, "lost": null, "store": 1 })
    );
    assert_eq!(
        third["event"],
        json!({
            "epoch": 3, "node": node("b2"), "why": "rejoin", "store": 1,
            "before": { "epoch": 1, "node": node("a1") },
            "lost": { "first": 5, "last": 9, "chain": "0f".repeat(32) },
        })
    );
    assert_eq!(
        (&invalid["event"], &invalid["unreadable"]),
        (&Value::Null, &json!("an invalid writer note"))
    );
    look(&place.dir, &["records", "--kind", "writer_note"])
        .has("epoch 1: process a1a1")
        .has("before: epoch 1, process a1a1")
        .has("records 5 to 9 of that folder are not in the log");
    look(&place.dir, &["records", &(last - 1).to_string()]).has("writer_note");
    look(&place.dir, &["export"]).has("\"writer_note\":{").has("\"why\":\"rejoin\"");
}
