//! `ledger inspect` about runs: the plan and how far it is; also of runs that are long over, and of
//! logs that are damaged or pruned.
//!
//! Method: as in `inspect.rs`: ledgers are made with the library and looked at with the binary;
//! every look compares all bytes of the folder before and after.

use std::collections::BTreeSet;

use plan_ledger::internals::ledger::RetentionLimit;
use plan_ledger::{Environment, Json, Ledger, LedgerView, Plan, Receipt, RunPolicy, State};
use serde_json::{Value, json};

use super::inspect::{
    Place, change, dispatch, documented, environment, large, look, place, reopen, segments, small,
};

/// What is published of the lines.
const PUBLISHED: &str = include_str!("../../format/inspect-json.md");

/// Every command about runs, for a ledger whose run is called so and has a step 2.
pub(crate) fn commands(run: &str) -> Vec<Vec<String>> {
    let lines = [
        "runs",
        "plan RUN",
        "plan RUN --version 1",
        "plan RUN --diff 1 1",
        "queue RUN",
        "variables RUN",
        "budget RUN",
        "budget RUN --chart",
        "questions RUN --decided",
        "cost RUN",
        "status --view user --run RUN",
        "status --view operator --run RUN",
        "status --view user --run RUN --at 9",
        "runs --at 9",
        "runs RUN --at 9",
        "runs RUN",
        "why RUN #2",
        "why RUN #2 --at 9",
        "step RUN #2",
        "timeline RUN",
        "graph RUN",
        "progress RUN",
    ];
    let words = |line: &&str| -> Vec<String> {
        line.split(' ')
            .map(|word| if word == "RUN" { run.to_owned() } else { word.to_owned() })
            .collect()
    };
    let mut all: Vec<Vec<String>> = lines.iter().map(words).collect();
    // What follows reads the whole log of a run, and says no where it cannot.
    let whole = ["metrics RUN", "status --view debug --run RUN", "diff 4 9", "diff RUN RUN"];
    all.extend(whole.iter().map(words));
    all
}

/// Those that answer whatever is damaged.
const TOLERANT: usize = 22;

fn refs(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// The words of letters in a text.
fn letters(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_alphabetic()).filter(|word| word.len() > 2).collect()
}

/// The text of HTML, without elements and their attributes.
fn text_of_html(html: &str) -> String {
    let parts = html.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text));
    let text: String = parts.collect::<Vec<_>>().join(" ");
    let entities = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")];
    entities.iter().fold(text, |text, (entity, c)| text.replace(entity, c))
}

/// Goal: the HTML of each view says what its text says, loads nothing, and no text of a plan becomes an element.
#[test]
fn html_of_each_view_says_what_its_text_says() {
    let place = small();
    let is_inspect =
        |words: &&Vec<String>| !["budget", "questions", "status"].contains(&words[0].as_str());
    for words in commands("small").iter().filter(is_inspect) {
        let mut args = refs(words);
        let text = look(&place.dir, &args);
        args.push("--html");
        let html = look(&place.dir, &args);
        assert_eq!((html.code, text.code), (0, 0), "{args:?}: {html:?}");
        assert!(html.out.starts_with("<!doctype html>"), "{args:?}");
        assert!(!html.out.contains("<script") && !html.out.contains("src="), "{args:?}");
        let shown = text_of_html(&html.out);
        let missing: Vec<_> = letters(&text.out).difference(&letters(&shown)).copied().collect();
        assert_eq!(missing, [""; 0], "{args:?}: {}", html.out);
    }
    let unknown = look(&place.dir, &["why", "small", "#99", "--html"]);
    assert_eq!((unknown.code == 0, unknown.out.as_str()), (false, ""), "an error leaves no page");
}

/// Goal: each command answers people and programs, with the same exit code; for programs with
/// nothing but lines of the published form, the last of which says which record it is about.
#[test]
fn every_command_answers_people_and_programs() {
    let place = small();
    let last =
        LedgerView::open(&place.dir, &environment()).unwrap().fold(u64::MAX).unwrap().state.seq;
    let mut types = BTreeSet::new();
    for words in commands("small") {
        let mut args = refs(&words);
        let text = look(&place.dir, &args);
        assert_eq!(text.code, 0, "{args:?}: {text:?}");
        assert!(text.out.lines().count() > 0, "{args:?}");
        args.push("--json");
        let json = look(&place.dir, &args);
        assert_eq!(json.code, 0, "{args:?}");
        let lines = json.lines();
        let end = lines.last().unwrap();
        assert_eq!((&end["type"], &end["unread"]), (&json!("as_of"), &json!([])), "{args:?}");
        let is_past = words.iter().any(|word| word == "--at") || words[..] == ["diff", "4", "9"];
        assert_eq!(end["seq"], if is_past { 9 } else { last }, "{args:?}");
        // format/cli-json.md describes the others.
        for line in lines.iter().filter(|_| words[0] != "questions") {
            let name = line["type"].as_str().unwrap();
            let members = line.as_object().unwrap().keys().cloned();
            let members: BTreeSet<_> = members.filter(|each| each != "type").collect();
            assert_eq!(members, documented(PUBLISHED, name), "{name}");
            types.insert(name.to_owned());
        }
    }
    for name in ["run_row", "plan_step", "budget_part", "why", "node", "interval", "change"] {
        assert!(types.contains(name), "no {name} in {types:?}");
    }
}

/// Goal: what a person needs at three in the morning stands in the text.
#[test]
fn people_are_told_what_they_came_for() {
    let place = small();
    let tell = |args: &[&str]| look(&place.dir, args);
    tell(&["runs"]).has("1    small  waiting for people: 2 items  1/6");
    tell(&["plan"])
        .has("version 1 of 1 (")
        .has("#4    never  failed")
        .has("#1    flaky  accepted         builder  -            Fails once")
        .has("#6    3      waiting          -        last, never  has a number for its id");
    tell(&["queue"]).has("no step can be dispatched");
    tell(&["variables"]).has("binary    1        yes      #1 flaky  2027-01-15T08:");
    tell(&["variables", "--history", "binary"]).has("#1 flaky  \"a.out \\u001b]0;x\\u0007\"");
    tell(&["runs", "small"])
        .has("barrier gate: closed, 1 of 2 needed arrived (3 members)")
        .has("missing  #2 slow  reported")
        .has("missing  #3 mail  outcome_unknown");
    tell(&["budget", "small"]).has("attempts  6      -         -          no limit");
    tell(&["questions", "--decided"])
        .has("the outcome of step 3 (mail) is unknown")
        .has("small mail landed")
        .has("no decision by a person");
    tell(&["cost"]).has("#1 flaky  2").has("all       6");
    tell(&["metrics"]).has("retry exhaustion").has("1 of 2");
    tell(&["status", "--view", "operator"])
        .has("6; 2 failed, 1 retried")
        .has("outcome unknown  attempt  token  worker")
        .has("last failure  #4 transient: never works");
    tell(&["status", "--view", "debug"]).has("steps.1.status: \"ready\" -> \"dispatched\"");
    tell(&["status", "--view", "user"])
        .has("1 of 6 steps")
        .has("the outcome of step 3 (mail) is unknown: a lost attempt may have done it");
    tell(&["progress"]).has("] 1/6 accepted, 1 failed").has("remaining steps");
}

/// Goal: what is asked for wrongly is said, with what there is instead.
#[test]
fn wrong_questions_are_answered_with_what_there_is() {
    let place = small();
    let wrong = |args: &[&str], text: &str| {
        let look = look(&place.dir, args);
        assert_eq!((look.code, look.out.as_str()), (2, ""), "{look:?}");
        assert!(look.err.contains(text), "no {text:?} in {}", look.err);
    };
    for command in [
        "plan",
        "queue",
        "variables",
        "budget",
        "questions",
        "cost",
        "metrics",
        "timeline",
        "graph",
        "progress",
    ] {
        wrong(&[command, "smal"], "there is no run smal; the only run is small");
        if command != "metrics" {
            wrong(&[command, "small", "--at", "900"], "expected a record up to");
            wrong(&[command, "small", "--at", "0"], "expected at least 1");
        }
    }
    wrong(&["plan", "--version", "2"], "run small has no version 2 of its plan; it has 1");
    wrong(&["plan", "--diff", "1", "9"], "no version 9");
    wrong(&["variables", "--history", "binari"], "never set binari; did you mean binary?");
    wrong(&["why", "small", "flakky"], "has no step flakky (it has 6); did you mean `flaky`?");
    wrong(&["history", "small", "#9"], "use `ledger inspect step");
    wrong(&["runs", "--at", "900"], "expected a record up to");
    wrong(&["diff", "1", "900"], "expected a record up to");
    wrong(&["diff", "1", "small"], "expected two records, or two runs");
    wrong(&["diff", "small", "other"], "there is no run other");
    wrong(&["graph", "--format", "svg"], "invalid value 'svg'");
}

/// Goal: several runs are told apart: no command guesses which one is meant, unless only one goes
/// on.
#[test]
fn a_run_is_guessed_only_where_there_is_one() {
    let place = small();
    let ledger = reopen(&place.dir);
    let plan: Plan = serde_json::from_value(json!({"steps": [{"id": "a"}]})).unwrap();
    let second = ledger.start_run("second", &plan, RunPolicy::default()).unwrap();
    let both = look(&place.dir, &["queue"]);
    assert_eq!(both.code, 2);
    assert!(both.err.contains("2 runs are active: small, second"), "{both:?}");
    for command in ["step", "why"] {
        let both = look(&place.dir, &[command, "flaky"]);
        assert!(both.code == 2 && both.err.contains("2 runs are active"), "{both:?}");
    }
    let token = dispatch(&ledger, second);
    ledger.record_receipt(token, Receipt::default()).unwrap();
    look(&place.dir, &["queue"]).has("queue of run small (1): waiting for people: 2 items");
    for command in ["step", "why"] {
        let named = look(&place.dir, &[command, "small", "flaky", "--json"]);
        assert_eq!(look(&place.dir, &[command, "flaky", "--json"]).out, named.out);
    }
    look(&place.dir, &["runs"]).has("2    second  done ");
}

/// Goal: a damaged ledger is shown up to the damage, by every command, with the damage named and
/// the exit code for it.
#[test]
fn damage_ends_no_answer() {
    let place = small();
    let record = look(&place.dir, &["records", "--from", "14", "--to", "14", "--json"]);
    let offset = record.of_type("record")[0]["offset"].as_u64().unwrap();
    let at = usize::try_from(offset).unwrap() + 50;
    change(&segments(&place.dir).remove(0), |bytes| bytes[at] ^= 4);
    for words in commands("small").into_iter().take(TOLERANT) {
        let mut args = refs(&words);
        let is_before = words.contains(&"9".to_owned());
        let text = look(&place.dir, &args);
        assert_eq!(text.code, if is_before { 0 } else { 4 }, "{args:?}: {text:?}");
        if !is_before {
            text.has("not all of the ledger can be read; this is the state after record 13")
                .has("damage: ")
                .has("record 14 is missing");
        }
        args.push("--json");
        let json = look(&place.dir, &args);
        let found = json.of_type("damage").len();
        assert_eq!(found, usize::from(!is_before), "{args:?}: {json:?}");
    }
    for words in commands("small").into_iter().skip(TOLERANT) {
        let code = look(&place.dir, &refs(&words)).code;
        assert_eq!(code, if words.contains(&"9".to_owned()) { 0 } else { 4 }, "{words:?}");
    }
    let unknown = look(&place.dir, &["queue", "other"]);
    assert!(unknown.code == 4 && unknown.err.contains("damaged or missing"), "{unknown:?}");
}

/// A ledger of 66 runs that are over: the first two are only sums.
fn many() -> Place {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let plan: Plan =
        serde_json::from_value(json!({"steps": [{"id": "a", "outputs": ["x"]}]})).unwrap();
    for number in 1..=66 {
        let run = ledger.start_run(&format!("run-{number}"), &plan, RunPolicy::default()).unwrap();
        let output = Json::new(&json!({ "x": number })).into();
        let token = dispatch(&ledger, run);
        ledger.record_receipt(token, Receipt { output, ..Receipt::default() }).unwrap();
    }
    ledger.close().unwrap();
    place
}

/// Goal: a run of which only the sums are left in the state is still answered for, as it was when
/// it ended; and the answer says so.
#[test]
fn a_run_that_ended_long_ago_is_shown_as_it_was() {
    let place = many();
    let rows = look(&place.dir, &["runs", "--json"]).of_type("run_row");
    assert_eq!(rows.len(), 66);
    let whole: Vec<bool> = rows.iter().map(|row| row["whole"].as_bool().unwrap()).collect();
    assert_eq!(whole.iter().filter(|whole| !**whole).count(), 2);
    for (command, text) in [
        ("variables run-1", "x         1        yes      #1 a"),
        ("plan #1", "#1    a   accepted"),
        ("step run-1 a", "attempt 1 (token @"),
        ("why run-1 a", "it is accepted"),
        ("timeline run-1", "[+] #1 a |"),
        ("cost run-1", "#1 a  1"),
        ("graph run-1", "[+] #1 a"),
        ("metrics run-1", "state trust"),
        ("status --view debug --run run-1", "run_ended"),
    ] {
        let args: Vec<&str> = command.split(' ').collect();
        let look = look(&place.dir, &args);
        assert_eq!(look.code, 0, "{look:?}");
        if !command.starts_with("status") {
            look.has(text);
        }
        look.has("it ended at record").has("and is shown in its final state");
    }
}

/// Goal: the summary lists the runs of which only the sums are kept, with the sums that they had.
#[test]
fn the_summary_lists_the_sums_of_runs_that_ended_long_ago() {
    let place = many();
    let summary = look(&place.dir, &[]);
    summary.has("2 runs that ended earlier, of which only summaries are kept:");
    summary.has("more runs: ").has(" done; `ledger inspect ").has("` lists all");
    assert_eq!(summary.out.matches("\nrun run-").count(), 8, "so many are shown in full");
    summary.has("  run-2: done ").has("version 1, 1 of 1 accepted, 0 skipped; 1 attempt, cost ");
    let rows = look(&place.dir, &["runs", "--json"]).of_type("run_row");
    let programs = look(&place.dir, &["--json"]);
    let ended = programs.of_type("run_row");
    assert_eq!((ended.len(), &programs.of_type("ledger")[0]["summaries"]), (2, &json!(2)));
    assert_eq!(ended[..], rows[..2]);
    assert!(ended.iter().all(|line| line["whole"] == false), "{ended:?}");
}

/// A ledger whose first run is done, in segments that are gone; a second one goes on.
fn pruned() -> Place {
    let place = place();
    let inline = Environment { blob_threshold: usize::MAX, ..environment() };
    let ledger = Ledger::create(&place.dir, &inline).unwrap();
    let steps: Vec<Value> = (1..=10).map(|n| json!({"id": format!("s{n}")})).collect();
    let plan: Plan = serde_json::from_value(json!({"title": "Old", "steps": steps})).unwrap();
    for name in ["old", "new"] {
        let run = ledger.start_run(name, &plan, RunPolicy::default()).unwrap();
        for _ in 0..(if name == "old" { 10 } else { 4 }) {
            let output = Json::new(&json!("x".repeat(400_000))).into();
            let token = dispatch(&ledger, run);
            ledger.record_receipt(token, Receipt { output, ..Receipt::default() }).unwrap();
        }
    }
    ledger.snapshot::<State>().unwrap();
    let run = ledger.state().unwrap().run_named("new").unwrap().id;
    ledger.set_variable(run, "v", Json::new(&1.into()), None, "ann").unwrap();
    ledger.snapshot::<State>().unwrap();
    ledger.set_variable(run, "v", Json::new(&2.into()), None, "ann").unwrap();
    let pruned = ledger.prune(RetentionLimit::EndedRuns, None, "ann").unwrap();
    assert!(pruned.preview.last_seq > 10, "{pruned:?}");
    ledger.close().unwrap();
    place
}

/// Goal: of a pruned log every answer that is left is given, and what is missing is said with the
/// record from which on the log can tell.
#[test]
fn a_pruned_log_says_from_where_on_it_can_answer() {
    let place = pruned();
    let end = &look(&place.dir, &["runs", "--json"]).of_type("as_of")[0];
    let first = end["first_seq"].as_u64().unwrap();
    assert!(first > 10, "{end}");
    let since = format!("the log begins at record {first}");
    for command in ["timeline old", "cost old", "step old s1", "variables new --history v"] {
        let args: Vec<&str> = command.split(' ').collect();
        let look = look(&place.dir, &args);
        assert_eq!(look.code, 0, "{look:?}");
        look.has(&since);
    }
    look(&place.dir, &["plan", "old"]).has("#10   s10  accepted");
    look(&place.dir, &["variables", "new"]).has("v         2");
    let early = look(&place.dir, &["runs", "--at", "3"]);
    assert_eq!(early.code, 2, "{early:?}");
    assert!(
        early.err.contains(&since) && early.err.contains("ask for that record or a later one"),
        "{early:?}"
    );
    let metrics = look(&place.dir, &["metrics", "old"]);
    assert!(
        metrics.code == 2 && metrics.err.contains(&format!("began before record {first}")),
        "{metrics:?}"
    );
    // What is left is told, and from where on: the changes begin with the run as it was then.
    let debug = look(&place.dir, &["status", "--view", "debug", "--run", "old"]);
    assert_eq!(debug.code, 0, "{debug:?}");
    debug.has(&since).has("changes are shown from record");
    let debug = look(&place.dir, &["status", "--view", "debug", "--run", "new", "--json"]);
    assert_eq!(debug.code, 0, "{debug:?}");
    let untold = debug.of_type("unavailable")[0]["through"].as_u64().unwrap();
    let traced = debug.of_type("traced");
    assert!(!traced.is_empty() && traced.iter().all(|it| it["seq"].as_u64() > Some(untold)));
    let changes: Vec<_> =
        traced.iter().flat_map(|it| it["changes"].as_array().unwrap().clone()).collect();
    let is_of_v = |change: &Value| {
        (&change["path"][0], &change["path"][1]) == (&"variables".into(), &"v".into())
    };
    assert!(!changes.is_empty() && changes.iter().all(is_of_v), "{changes:?}");
    // The course of a run ends where the run stands, whatever the log still has of it.
    let course = look(&place.dir, &["progress", "new", "--json"]).of_type("milestone");
    assert_eq!(course.last().unwrap()["closed"], 4);
}

/// Goal: segments that are missing altogether cost no answer that can be given without them.
#[test]
fn a_missing_segment_is_named_by_every_command() {
    let place = large();
    std::fs::remove_file(&segments(&place.dir)[1]).unwrap();
    for words in [
        "runs",
        "plan large",
        "status --view debug --run large",
        "timeline large",
        "step large s1",
        "graph",
        "progress",
    ] {
        let args: Vec<&str> = words.split(' ').collect();
        let look = look(&place.dir, &args);
        assert_eq!(look.code, 4, "{look:?}");
        look.has("damage: ").has("missing");
    }
}
