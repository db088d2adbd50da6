//! `ledger inspect`: what it prints about a small ledger, and what it does when the ledger is
//! live, damaged, cut short or half gone.
//!
//! Method: ledgers are made with the library and looked at with the binary. Every look compares
//! all bytes of the folder before and after.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use plan_ledger::plan::Token;
use plan_ledger::{
    Clock, Environment, ErrorKind, FailureClass, Json, Ledger, LostCause, Outcome, Plan, Receipt,
    Ruling, RunId, RunPolicy, Verdict,
};
use serde_json::{Value, json};

/// A clock that moves on by a second whenever it is asked.
#[derive(Debug)]
struct Ticks(AtomicU64);

impl Clock for Ticks {
    fn now(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

pub(crate) fn environment() -> Environment {
    let clock = Arc::new(Ticks(AtomicU64::new(1_800_000_000_000_000)));
    Environment { clock, holder: "the test".to_owned(), ..Environment::system() }
}

/// A folder of its own, and a ledger in it.
pub(crate) struct Place {
    _keep: tempfile::TempDir,
    pub(crate) dir: PathBuf,
}

pub(crate) fn place() -> Place {
    let keep = tempfile::tempdir().unwrap();
    let dir = keep.path().join("a ledger");
    Place { _keep: keep, dir }
}

fn plan() -> Plan {
    serde_json::from_value(json!({
        "title": "Small \u{1b}[31mplan",
        "steps": [
            {"id": "flaky", "title": "Fails once", "goal": "compile", "command": "make", "owner": "builder", "outputs": ["binary"]},
            {"id": "slow", "goal": "is lost once", "after": ["flaky"], "acceptance": ["a person looked at it"]},
            {"id": "mail", "goal": "send it", "idempotent": "no"},
            {"id": "never", "goal": "fails for good", "retry": {"max_attempts": 1}},
            {"id": "last", "goal": "after the barrier", "after": ["gate"]},
            {"id": "3", "goal": "has a number for its id", "after": ["last", "never"]},
        ],
        "barriers": [{"id": "gate", "members": ["flaky", "slow", "mail"], "needs": {"at_least": 2}, "on_break": "wait"}],
    }))
    .unwrap()
}

pub(crate) fn success(output: &Value) -> Receipt {
    Receipt {
        output: Json::new(output).into(),
        duration: 1_500_000,
        log_tail: "warning: \u{1b}[2J\nall is well".into(),
        ..Receipt::default()
    }
}

fn failure(message: &str) -> Receipt {
    let class = FailureClass::Transient;
    let outcome = Outcome::Failed { class, message: message.to_owned(), payload: Json::default() };
    Receipt { outcome, ..Receipt::default() }
}

pub(crate) fn dispatch(ledger: &Ledger, run: RunId) -> Token {
    ledger.dispatch(run, "worker-1").unwrap().unwrap().token
}

/// A failed attempt and its retry, a lost attempt, one of unknown outcome, one that failed permanently, one
/// that waits for a verdict, a refused receipt, a closed barrier.
fn fill(ledger: &Ledger) -> RunId {
    let run = ledger.start_run("small", &plan(), RunPolicy::default()).unwrap();
    let flaky = dispatch(ledger, run);
    ledger.record_receipt(flaky, failure("no space left")).unwrap();
    let flaky = dispatch(ledger, run);
    ledger.renew(flaky).unwrap();
    ledger.record_receipt(flaky, success(&json!({"binary": "a.out \u{1b}]0;x\u{7}"}))).unwrap();
    let slow = dispatch(ledger, run);
    ledger.report_lost(slow, LostCause::RunnerDied, "the runner was killed").unwrap();
    ledger.record_receipt(slow, success(&json!("late"))).unwrap_err();
    let slow = dispatch(ledger, run);
    ledger.record_receipt(slow, success(&json!("in time"))).unwrap();
    let mail = dispatch(ledger, run);
    ledger.report_lost(mail, LostCause::RunnerDied, "the runner was killed").unwrap();
    let never = dispatch(ledger, run);
    ledger.record_receipt(never, failure("never works")).unwrap();
    run
}

pub(crate) fn small() -> Place {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    fill(&ledger);
    ledger.close().unwrap();
    place
}

/// Open a ledger that was closed. A process that another test has just forked may share the lock
/// for a moment, until it becomes the program that it was forked for.
pub(crate) fn reopen(dir: &Path) -> Ledger {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match Ledger::open_with(dir, &environment()) {
            Err(error) if error.kind() == ErrorKind::Locked && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            opened => return opened.unwrap().0,
        }
    }
}

/// Several segments.
pub(crate) fn large() -> Place {
    let place = place();
    let inline = Environment { blob_threshold: usize::MAX, ..environment() };
    let ledger = Ledger::create(&place.dir, &inline).unwrap();
    let steps: Vec<_> = (1..=12).map(|n| json!({"id": format!("s{n}")})).collect();
    let plan: Plan = serde_json::from_value(json!({"title": "Large", "steps": steps})).unwrap();
    let run = ledger.start_run("large", &plan, RunPolicy::default()).unwrap();
    for n in 0..10 {
        let token = dispatch(&ledger, run);
        let output = json!(format!("{n}").repeat(400_000));
        ledger
            .record_receipt(
                token,
                Receipt { output: Json::new(&output).into(), ..Receipt::default() },
            )
            .unwrap();
    }
    ledger.close().unwrap();
    place
}

/// What a look came to.
#[derive(Debug)]
pub(crate) struct Look {
    args: Vec<String>,
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Look {
    #[track_caller]
    pub(crate) fn has(&self, text: &str) -> &Self {
        assert!(self.out.contains(text), "no {text:?} in:\n{}{}", self.out, self.err);
        self
    }

    pub(crate) fn lines(&self) -> Vec<Value> {
        super::command::json_lines(&self.args, &self.out)
    }

    pub(crate) fn of_type(&self, name: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["type"] == name).collect()
    }
}

/// Look, and see that nothing was changed.
#[track_caller]
pub(crate) fn look(dir: &Path, args: &[&str]) -> Look {
    let before = bytes(dir);
    let look = look_live(dir, args);
    assert_eq!(before, bytes(dir), "something was written");
    look
}

#[track_caller]
pub(crate) fn look_live(dir: &Path, args: &[&str]) -> Look {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    let (word, args) = match args.split_first() {
        Some((&"status", options)) => ("status", options),
        Some((&"questions", options)) => ("questions", options),
        Some((&"budget", options)) => ("budget", options),
        Some((&"export", options)) => ("export", options),
        _ => ("inspect", args),
    };
    command.args([word, "--ledger"]).arg(dir).args(args).env_remove("NO_COLOR");
    let output = command.output().unwrap();
    let words = command.get_args().map(|arg| arg.to_string_lossy().into_owned());
    let look = Look {
        args: words.collect(),
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!look.err.contains("panicked"), "{args:?}: {}", look.err);
    let is_obeyed = |c: char| c.is_control() && c != '\n';
    assert!(!look.out.contains(is_obeyed) && !look.err.contains(is_obeyed), "{look:?}");
    look
}

/// Every file and folder with its bytes.
pub(crate) fn bytes(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let Ok(entries) = fs::read_dir(dir) else { return all };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.insert(path.clone(), Vec::new());
            all.extend(bytes(&path));
        } else {
            let content = fs::read(&path).unwrap();
            all.insert(path, content);
        }
    }
    all
}

pub(crate) fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<_> =
        fs::read_dir(dir.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

pub(crate) fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut content = fs::read(path).unwrap();
    change(&mut content);
    fs::write(path, content).unwrap();
}

pub(crate) fn last_seq(dir: &Path) -> u64 {
    look(dir, &["--json"]).of_type("ledger")[0]["head"]["seq"].as_u64().unwrap()
}

/// Where a record's frame starts, and how long it is.
pub(crate) fn frame_of(dir: &Path, seq: u64) -> (usize, usize) {
    let seq = seq.to_string();
    let records = look(dir, &["records", "--from", &seq, "--to", &seq, "--json"]).of_type("record");
    let number = |name: &str| usize::try_from(records[0][name].as_u64().unwrap()).unwrap();
    (number("offset"), number("size"))
}

#[test]
fn the_summary_tells_people_what_is_going_on() {
    let place = small();
    let look = look(&place.dir, &[]);
    assert_eq!(look.code, 0, "{look:?}");
    look.has("health  good")
        .has("writer  closed cleanly; last opened by the test")
        .has("run small (1): waiting for people: 2 items")
        .has("): Small \\u{1b}[31mplan")
        .has("] 1/6 accepted, 1 failed, 1 waiting for verdicts, 1 outcome unknown, 2 waiting")
        .has("1 variable, cost $0.00")
        .has("wait for verdicts  #2 slow")
        .has("outcome unknown  #3 mail")
        .has("#4 never  1         transient  never works")
        .has("gate     closed  1/2      #2 slow, #3 mail")
        .has("a ledger' small slow")
        .has("a ledger' small mail did-not-happen");
}

#[test]
fn the_summary_shows_what_is_in_flight_and_what_is_next() {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let run = ledger.start_run("small", &plan(), RunPolicy::default()).unwrap();
    dispatch(&ledger, run);
    let look = look(&place.dir, &[]);
    assert_eq!(look.code, 0, "{look:?}");
    look.has("writer  open in a process, or the process was killed; last opened by the test")
        .has("#1 flaky   1        worker-1  2027-01-15T")
        .has("dispatch #3 mail (1 more are ready)")
        .has("wait for 1 attempt in flight");
    let run = &look_live(&place.dir, &["--json"]).of_type("run")[0];
    assert_eq!(run["in_flight"][0]["id"], "flaky");
    assert_eq!(run["next"][0]["action"], "dispatch");
    assert_eq!(run["next"][0]["number"], 3);
}

#[test]
fn the_summary_as_json() {
    let place = small();
    let look = look(&place.dir, &["--json"]);
    assert_eq!(look.code, 0);
    let run = &look.of_type("run")[0];
    assert_eq!(run["counts"]["outcome_unknown"], 1);
    assert_eq!(run["status"], "running");
    assert_eq!(run["barriers"][0]["missing"], json!([2, 3]));
    assert_eq!(run["outcome_unknown"], json!([{"step": 3, "id": "mail"}]));
    let actions: Vec<_> =
        run["next"].as_array().unwrap().iter().map(|next| next["action"].clone()).collect();
    assert_eq!(actions, ["answer", "retry", "accept"]);
    let ledger = &look.of_type("ledger")[0];
    assert_eq!(ledger["health"]["status"], "good");
    assert_eq!(ledger["health"]["opening"]["verdict"], "clean");
    assert_eq!(ledger["head"]["seq"], ledger["acknowledged"]);
    let ledger_now = reopen(&place.dir);
    assert_eq!(ledger["state"]["hash"], ledger_now.state_hash().unwrap().to_string());
}

#[test]
fn records_are_listed_and_chosen() {
    let place = small();
    let all = look(&place.dir, &["records"]);
    assert_eq!(all.code, 0);
    all.has("      1  2027-01-15T08:00:")
        .has("run_started       small         run small started: approval automatic")
        .has("small #1      @6 failed (transient): no space left")
        .has("small #2      @14 lost (runner died), to be dispatched again: the runner was killed")
        .has("output {\"binary\":\"a.out \\u001b]0;x\\u0007\"}");
    let part = look(&place.dir, &["records", "--from", "6", "--to", "9"]);
    // The wall clock is behind the records, and a note says so.
    assert_eq!(part.out.lines().filter(|line| !line.starts_with("note: ")).count(), 4);
    let kinds = ["records", "--kind", "dispatched", "--kind", "34", "--json"];
    let kinds = look(&place.dir, &kinds).of_type("record");
    assert_eq!(kinds.len(), 8);
    assert!(kinds.iter().all(|each| each["kind"] == "dispatched" || each["kind_number"] == 34));
    let nothing = look(&place.dir, &["records", "--from", "1000", "--json"]);
    assert_eq!((nothing.code, nothing.lines().len()), (0, 1));
    let run = look(&place.dir, &["records", "--run", "small", "--json"]);
    let whole = look(&place.dir, &["records", "--json"]);
    assert_eq!(run.of_type("record"), whole.of_type("record"));
    let summary = &whole.of_type("summary")[0];
    assert_eq!(summary["records"], whole.of_type("record").len());
    assert_eq!(summary["health"]["status"], "good");
}

#[test]
fn the_story_of_a_step() {
    let place = small();
    let flaky = look(&place.dir, &["step", "small", "flaky"]);
    assert_eq!(flaky.code, 0);
    flaky
        .has("step #1 flaky of run small: accepted")
        .has("  title    Fails once")
        .has("  command  make")
        .has("attempt 1 (token @6)")
        .has("@6 receipt: failed (transient): no space left")
        .has("to be retried by retry.attempts_left")
        .has("attempt 2 (token @9)")
        .has("@9 lease renewed until")
        .has("@9 receipt: succeeded")
        .has("\"binary\": \"a.out \\u001b]0;x\\u0007\"")
        .has("duration: 1s 500ms")
        .has("warning: \\u{1b}[2J\n")
        .has("the step has no criteria; its receipt suffices");
    let slow = look(&place.dir, &["step", "#1", "#2"]);
    slow.has("step #2 slow of run small: reported")
        .has("waits for a verdict on criterion 1")
        .has("acceptance  1. text: a person looked at it")
        .has("@14 lost (runner died)")
        .has("@14 receipt rejected (the attempt has ended: the step is ready): succeeded")
        .has("output: late");
    let last = look(&place.dir, &["step", "small", "last"]);
    last.has("barrier gate is not released: 1 of 2 arrived, missing step 2 (slow), step 3 (mail)")
        .has("no events yet");
    let numeric = look(&place.dir, &["step", "small", "3"]);
    numeric
        .has("step #6 3 of run small: waiting")
        .has("step 4 (never) is failed")
        .has("step 5 (last) is waiting");
    look(&place.dir, &["step", "small", "#3"]).has("step #3 mail of run small: outcome_unknown");
    look(&place.dir, &["step", "small", "#4"]).has("never works");
}

#[test]
fn the_story_of_a_step_as_json() {
    let place = small();
    let look = look(&place.dir, &["step", "small", "slow", "--json"]);
    assert_eq!(look.code, 0);
    let step = &look.of_type("step")[0];
    assert_eq!(step["plan"]["goal"], "is lost once");
    assert_eq!(step["status"], "reported");
    let attempts = look.of_type("attempt");
    let fates: Vec<_> = attempts.iter().map(|each| each["outcome"].clone()).collect();
    assert_eq!(fates, ["lost", "reported"]);
    assert_eq!(attempts[0]["receipts_refused"], 1);
    assert_eq!(attempts[1]["receipt"]["output"], "in time");
    let kinds: Vec<_> = look.of_type("record").iter().map(|each| each["kind"].clone()).collect();
    let expected =
        ["dispatched", "attempt_lost", "receipt_refused", "dispatched", "receipt_recorded"];
    assert_eq!(kinds, expected);
    let flaky = self::look(&place.dir, &["step", "small", "flaky", "--json"]).of_type("attempt");
    assert_eq!(flaky[0]["outcome"], "failed_and_retried");
    assert_eq!(
        (&flaky[1]["outcome"], flaky[1]["renewals"].as_array().unwrap().len()),
        (&json!("accepted"), 1)
    );
}

#[test]
fn long_outputs_are_shortened_unless_asked_for() {
    let place = large();
    let short = look(&place.dir, &["step", "large", "s1"]);
    short.has("398000 more characters; --full shows all of it");
    assert!(short.out.len() < 4_000);
    let full = look(&place.dir, &["step", "large", "s1", "--full"]);
    assert!(full.out.len() > 400_000 && !full.out.contains("--full"));
}

#[test]
fn wrong_input_is_told_in_clear_words() {
    let place = small();
    let wrong = |args: &[&str], message: &str| {
        let look = look(&place.dir, args);
        assert_eq!(look.code, 2, "{look:?}");
        assert!(look.err.contains(message), "{message}: {}", look.err);
        assert!(look.out.is_empty());
    };
    wrong(&["step", "smal", "1"], "there is no run smal; the only run is small");
    wrong(
        &["step", "small", "flakky"],
        "run small has no step flakky (it has 6); did you mean `flaky`?",
    );
    wrong(&["step", "small", "#7"], "no step #7");
    wrong(&["step", "small", "\u{1b}[2J"], "no step \\u{1b}[2J");
    wrong(&["records", "--run", "x"], "there is no run x; the only run is small");
    wrong(
        &["records", "--kind", "dispatch"],
        "expected a number, or one of run_started, plan_proposed",
    );
    wrong(&["records", "--from", "5", "--to", "4"], "--to 4 is before --from 5");
    wrong(&["records", "--from", "0"], "0");

    let missing = look(&place.dir.join("nothing"), &[]);
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("there is no such folder"), "{}", missing.err);
    let empty = tempfile::tempdir().unwrap();
    let empty = look(empty.path(), &["--json"]);
    assert_eq!(empty.code, 2);
    assert!(empty.err.contains("it has no folder `log`"), "{}", empty.err);
    let file = look(&place.dir.join("HEAD"), &["records"]);
    assert_eq!(file.code, 2);
    assert!(file.err.contains("this file is not an archive"), "{}", file.err);
}

#[test]
fn an_empty_ledger_is_fine() {
    let place = place();
    Ledger::create(&place.dir, &environment()).unwrap().close().unwrap();
    let look = look(&place.dir, &[]);
    assert_eq!(look.code, 0);
    look.has("head    no record").has("no run has been started");
    assert_eq!(self::look(&place.dir, &["records"]).out, "no record matches\n");
}

/// Ends a thread even if an assertion fails.
pub(crate) struct SetOnDrop<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Goal: a look never waits for a writer, never disturbs it, and never takes what it is writing
/// for damage.
#[test]
fn a_live_ledger_is_always_good() {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let run = fill(&ledger);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let value = Json::new(&json!("x".repeat(3_000)));
            while !is_over.load(Ordering::Relaxed) {
                ledger.set_variable(run, "v", value.clone(), None, "me").unwrap();
                // At full speed the log would grow faster than it can be looked at.
                std::thread::sleep(std::time::Duration::from_millis(3));
            }
        });
        let _stop = SetOnDrop(&is_over);
        for args in [&[][..], &["--json"], &["records", "--json"], &["step", "small", "#1"]] {
            for _ in 0..5 {
                let look = look_live(&place.dir, args);
                let told = look.out.lines().filter(|line| line.contains("damage"));
                let told: Vec<_> = told.filter(|line| !line.contains("\"record\"")).collect();
                assert_eq!(look.code, 0, "{args:?}: {told:?} {}", look.err);
            }
        }
    });
    ledger.close().unwrap();
    assert_eq!(look(&place.dir, &[]).code, 0);
}

/// Goal: records that a killed writer wrote and HEAD does not know are shown, and are no damage.
#[test]
fn what_a_killed_writer_leaves_is_no_damage() {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let run = fill(&ledger);
    let head = fs::read(place.dir.join("HEAD")).unwrap();
    ledger.set_variable(run, "v", Json::default(), None, "me").unwrap();
    let copy = place.dir.with_file_name("copy");
    fs::create_dir_all(copy.join("log")).unwrap();
    fs::write(copy.join("HEAD"), head).unwrap();
    for segment in segments(&place.dir) {
        fs::copy(&segment, copy.join("log").join(segment.file_name().unwrap())).unwrap();
    }
    let summary = look(&copy, &[]);
    assert_eq!(summary.code, 0, "{summary:?}");
    summary.has("1 of them after the durable end in HEAD").has("health  good; the last write");
    let records = look(&copy, &["records"]);
    assert_eq!(records.code, 0);
    records.has("? 2027-").has("? 1 record after the durable end in HEAD");
    let ledger = &look(&copy, &["--json"]).of_type("ledger")[0];
    assert_eq!(ledger["health"]["opening"]["verdict"], "unacknowledged_tail");
}

#[test]
fn a_flipped_bit_is_located_and_the_rest_is_shown() {
    let place = small();
    let (offset, size) = frame_of(&place.dir, 10);
    let segment = segments(&place.dir).remove(0);
    change(&segment, |bytes| bytes[offset + size - 70] ^= 4);
    let summary = look(&place.dir, &[]);
    assert_eq!(summary.code, 4);
    summary
        .has("health  damaged")
        .has(&format!(": bytes {offset} to {}: record 10 is missing", offset + size))
        .has("intact records after the damage")
        .has("it cannot be opened for writing")
        .has("run small (1): unknown: not all of the ledger can be read")
        .has("#1 flaky   2        worker-1");
    let records = look(&place.dir, &["records"]);
    assert_eq!(records.code, 4);
    records.has("record 10 is missing").has("     11! ").has("@14 lost");
    let json = look(&place.dir, &["records", "--json"]);
    assert_eq!(json.code, 4);
    let place_of = |seq: u64| json.lines().iter().position(|line| line["seq"] == seq).unwrap();
    let damage = &json.of_type("damage")[0];
    assert_eq!((&damage["first_seq"], &damage["last_seq"]), (&json!(10), &json!(10)));
    assert_eq!(place_of(11), place_of(9) + 2, "the damage stands where it is");
    assert_eq!(json.of_type("summary")[0]["health"]["status"], "damaged");
    let step = look(&place.dir, &["step", "small", "slow"]);
    assert_eq!(step.code, 4);
    step.has("not all of the ledger can be read").has("@14 lost").has("! 2027");
    let before = look(&place.dir, &["step", "small", "flaky", "--json"]);
    assert_eq!(before.code, 4);
    assert_eq!(before.of_type("damage").len(), 1);
    let unknown = look(&place.dir, &["step", "other", "#1"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("records are damaged or missing"), "{}", unknown.err);
}

#[test]
fn a_truncated_segment_is_shown_up_to_its_end() {
    let place = small();
    let (offset, _) = frame_of(&place.dir, 12);
    let segment = segments(&place.dir).remove(0);
    change(&segment, |bytes| bytes.truncate(offset + 10));
    let summary = look(&place.dir, &[]);
    assert_eq!(summary.code, 4);
    summary.has("head    record 11").has("HEAD: record 2").has("records 12 to 2");
    let records = look(&place.dir, &["records", "--json"]);
    assert_eq!((records.code, records.of_type("record").len()), (4, 11));
    assert_eq!(look(&place.dir, &["step", "small", "#1"]).code, 4);
    // Cut inside the header: nothing is left but the folder.
    change(&segment, |bytes| bytes.truncate(100));
    for args in [&[][..], &["records"], &["--json"], &["step", "small", "#1"]] {
        assert_eq!(look(&place.dir, args).code, 4);
    }
}

#[test]
fn missing_files_are_named() {
    let place = large();
    let all = segments(&place.dir);
    assert!(all.len() > 2, "{all:?}");
    let keep: Vec<_> = all.iter().map(|path| fs::read(path).unwrap()).collect();
    for (path, content) in all.iter().zip(&keep) {
        fs::remove_file(path).unwrap();
        for args in [&[][..], &["records", "--json"], &["step", "large", "s1"]] {
            let look = look(&place.dir, args);
            assert_eq!(look.code, 4, "{}: {look:?}", path.display());
        }
        fs::write(path, content).unwrap();
    }
    fs::remove_file(&all[1]).unwrap();
    look(&place.dir, &[])
        .has("is missing")
        .has("run large (1): unknown: not all of the ledger can be read");
    fs::write(&all[1], &keep[1]).unwrap();
    // Without HEAD nothing says what was acknowledged, but what is there is shown.
    fs::remove_file(place.dir.join("HEAD")).unwrap();
    let headless = look(&place.dir, &[]);
    assert_eq!(headless.code, 4);
    headless.has("HEAD is missing or damaged").has("10/12 accepted").has("both slots of HEAD");
}

#[test]
fn strangers_are_told_and_are_no_damage() {
    let place = small();
    fs::write(place.dir.join("log/notes\u{1b}.txt"), "hello").unwrap();
    let look = look(&place.dir, &[]);
    assert_eq!(look.code, 0);
    look.has("log/notes\\u{1b}.txt: this file does not belong here");
}

/// A closed pipe is not an error.
#[test]
fn a_closed_pipe_is_success() {
    let place = large();
    let mut child = Command::new(env!("CARGO_BIN_EXE_ledger"))
        .arg("inspect")
        .arg(&place.dir)
        .args(["records", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stderr.is_empty(), "{:?}", String::from_utf8_lossy(&output.stderr));
}

/// Goal: the published description and what is printed have the same members.
#[test]
fn every_member_is_documented() {
    let text = include_str!("../../format/inspect-json.md");
    let place = small();
    // A fence leaves a recovery note, and a verdict and a variable complete the picture.
    let ledger = reopen(&place.dir);
    let run = ledger.state().unwrap().run_named("small").unwrap().id;
    let token = ledger.state().unwrap().runs[&run].steps[1].attempt().unwrap().token;
    let verdict = Verdict {
        criterion: 0,
        ruling: Ruling::Pass,
        by: "ana".to_owned(),
        evidence: plan_ledger::plan::Text::default(),
    };
    ledger.judge(token, vec![verdict]).unwrap();
    ledger.close().unwrap();
    let last = last_seq(&place.dir);
    let (offset, size) = frame_of(&place.dir, last);
    let damaged = small();
    let segment = segments(&damaged.dir).remove(0);
    change(&segment, |bytes| bytes[5_000] ^= 1);
    let torn = small();
    change(&segments(&torn.dir).remove(0), |bytes| bytes[offset + size + 8_192] = 7);

    let mut seen = BTreeSet::new();
    for dir in [&place.dir, &damaged.dir, &torn.dir] {
        for args in [&["--json"][..], &["records", "--json"], &["step", "small", "#2", "--json"]] {
            for line in look(dir, args).lines() {
                let name = line["type"].as_str().unwrap().to_owned();
                let mut members: BTreeSet<_> = line.as_object().unwrap().keys().cloned().collect();
                assert!(members.remove("type"));
                assert_eq!(members, documented(text, &name), "{name}");
                if line["event"].is_object() {
                    check_event(text, &line);
                }
                seen.insert(name);
            }
        }
    }
    let all = ["attempt", "damage", "ledger", "record", "run", "step", "summary"];
    assert!(all.iter().all(|name| seen.contains(*name)), "{seen:?}");
}

/// The names in the first column of a section's table; a row may have several.
pub(crate) fn documented(text: &str, name: &str) -> BTreeSet<String> {
    let name = format!("`{name}`");
    let is_of = |section: &&str| section.lines().next().unwrap().split(", ").any(|it| it == name);
    let section = text.split("\n## ").skip(1).find(is_of).unwrap();
    let section = section.split("\n#").next().unwrap();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| `")?.split(" |").next());
    cells.flat_map(|cell| cell.trim_end_matches('`').split("`, `")).map(str::to_owned).collect()
}

fn check_event(text: &str, line: &Value) {
    let kind = line["kind"].as_str().unwrap();
    let row = text.lines().find(|row| row.starts_with(&format!("| `{kind}` |"))).unwrap();
    let mut expected: BTreeSet<_> =
        row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2).map(str::to_owned).collect();
    if (32..=42).contains(&line["kind_number"].as_u64().unwrap()) {
        expected.extend(["run", "step", "previous"].map(str::to_owned));
    }
    let found: BTreeSet<_> = line["event"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(found, expected, "{kind}");
}
