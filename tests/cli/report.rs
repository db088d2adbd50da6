//! Goal: a report is one file that needs nothing else, shows the run at its last record, and escapes what
//! plans and workers write.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::command::Place;

const PLAN: &str = "\
title: 'Release </title><script>alert(1)</script>'
steps:
  - {id: build, goal: 'Build <b>the</b> wheel', outputs: [wheel], command: \"printf '%s' '\\\"</script><img src=x>\\\"'\"}
  - {id: publish, after: [build], gate: {question: Publish it?}, command: 'true'}
  - {id: notes, after: [publish], acceptance: [a person has read them], command: 'true'}
";

fn reported() -> Place {
    let place = Place::new();
    place.ledger("init").code(0);
    place.write("plan.yaml", PLAN);
    place.ledger("run plan.yaml --yes --quiet");
    place
}

/// Goal: text of plans and workers never becomes a tag, and the page loads nothing.
#[test]
fn report_escapes_text_and_loads_nothing() {
    let place = reported();
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    for tag in ["<script>alert", "<img", "<b>the</b>", "</title><script"] {
        assert!(!page.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("<script").count(), 2, "the data and the script");
    for outside in ["https://", "http://", "@import", "url("] {
        let place = page.replace("http://www.w3.org/1999/xhtml", "");
        assert!(!place.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
    for word in
        ["build", "publish", "notes", "Waits for a person", "Publish it?", "wheel", "accepted"]
    {
        assert!(page.contains(word), "{word}");
    }
}

/// Goal: no text of a worker hides what a page says: characters that cannot be seen are named.
#[test]
fn report_names_characters_that_hide_text() {
    let place = Place::planned("steps: [{id: a}]");
    let token = place.ledger("claim --step a").code(0).token();
    let message = "no\u{202e}on\tx\u{1b}[2J";
    place.ledger_with(&["receipt", &token, "--failed", "deterministic", "--message", message]);
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    hides_nothing(&page);
    assert!(page.contains("no\\u{202e}on\\tx\\u{1b}[2J"), "{page}");
}

/// Goal: the same holds for names of workers, people and variables, and for titles, questions, notes and their options,
/// in the page and in what its script shows; what a form sends stays as it is.
#[test]
fn report_names_hidden_characters_in_names_and_questions() {
    let hidden = "a\u{202e}b\u{200b}c\u{2066}d";
    let named = "a\\u{202e}b\\u{200b}c\\u{2066}d";
    let place = Place::new();
    place.ledger("init").code(0);
    let gate = json!({"question": hidden, "options": [hidden, "wait"]});
    let plan = json!({"title": hidden, "steps": [
        {"id": "a", "title": hidden, "goal": hidden, "tags": [hidden], "acceptance": [hidden]},
        {"id": "b", "title": hidden, "gate": gate},
    ]});
    place.write("plan.json", plan.to_string());
    place.ledger("plan propose plan.json --run r").code(0);
    place.ledger_with(&["claim", "--step", "a", "--worker", hidden]);
    place.ledger_with(&["set", "x", hidden, "--run", "r", "--by", hidden]);
    place.ledger_with(&["note", hidden, "--run", "r", "--by", hidden]);
    place.ledger_with(&["pause", "r", "--reason", hidden, "--by", hidden]);
    place.ledger("report r --html page.html").code(0);
    let page = place.read("page.html");
    hides_nothing(&page);
    assert!(page.matches(named).count() > 10, "{page}");
    let points = page.split("id=\"points\">").nth(1).unwrap();
    assert!(points.contains(&named.replace('\\', "\\\\")), "{points}");
}

/// No character of a page is one that cannot be seen.
fn hides_nothing(page: &str) {
    let hidden = ['\u{202e}', '\u{1b}', '\u{200b}', '\u{2066}'];
    let hidden = page.match_indices(hidden).map(|(at, _)| at);
    let around = |at: usize| page[..at].chars().rev().take(80).collect::<String>();
    assert_eq!(hidden.map(around).collect::<Vec<_>>(), Vec::<String>::new());
}

/// Goal: the same records give the same bytes, and an earlier record is shown as it was.
#[test]
fn report_depends_on_the_records_alone() {
    let place = reported();
    place.ledger("report --html first.html").code(0);
    place.ledger("report --html second.html").code(0);
    assert_eq!(place.read("first.html"), place.read("second.html"));
    place.ledger("report --html first.html").code(2).complains(&["already exists"]);
    let earlier = place.ledger("report --html earlier.html --at 5 --json").code(0);
    assert_eq!(earlier.lines()[0]["seq"], 5);
    assert!(!place.read("earlier.html").contains("Waits for a person"));
    place.ledger("report none --html none.html").code(2).complains(&["there is no run"]);
    assert!(!place.path("none.html").exists());
    place.ledger("report --html none.html --at 999999").code(2);
    assert!(!place.path("none.html").exists());
}

/// Goal: the points of the slider end at the state of the page, whatever the length of the log.
#[test]
fn points_of_a_report_end_at_its_state() {
    let place = reported();
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    let seqs: Vec<u64> = points_of(&page).into_iter().map(|(seq, _)| seq).collect();
    assert!(seqs.is_sorted(), "points are in the order of records: {seqs:?}");
    let cells = cells_at(&page, u64::MAX);
    assert_eq!(
        (cells["s1"].as_str(), cells["s2"].as_str(), cells["s3"].as_str()),
        ("accepted", "gated", "waiting")
    );
    assert_eq!(cells["a1"], "1");
    assert!(cells["w2"].contains("waits for the answer to question"), "{}", cells["w2"]);
    assert_eq!(cells["progress"], "1/3 accepted, 1 waiting for an answer, 1 waiting");
}

/// The points of a page as its script reads them: each record with the cells that it changed.
fn points_of(page: &str) -> Vec<(u64, BTreeMap<String, String>)> {
    let data = page.split("id=\"points\">").nth(1).unwrap().split("</script>").next().unwrap();
    let rows: Vec<(u64, u64, BTreeMap<String, Value>)> = serde_json::from_str(data).unwrap();
    let (mut seq, mut last) = (0, BTreeMap::<String, Vec<u16>>::new());
    let point = |(more, _, cells): (u64, u64, BTreeMap<String, Value>)| {
        seq += more;
        let cells = cells.into_iter().map(|(key, value)| {
            let digit = key.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
            let kind = if digit { key[..1].to_owned() } else { key.clone() };
            let before = last.entry(kind).or_default();
            let units = |value: &Value| value.as_str().unwrap().encode_utf16().collect::<Vec<_>>();
            let number = |at: usize| usize::try_from(value[at].as_u64().unwrap()).unwrap();
            *before = match &value {
                Value::String(_) => units(&value),
                _ => {
                    let end = &before[before.len() - number(1)..];
                    [&before[..number(0)], &units(&value[2]), end].concat()
                }
            };
            (key, String::from_utf16(before).unwrap())
        });
        (seq, cells.collect())
    };
    rows.into_iter().map(point).collect()
}

/// The cells of a page at a record, from the points up to it.
fn cells_at(page: &str, seq: u64) -> BTreeMap<String, String> {
    let points = points_of(page).into_iter().filter(|(point, _)| *point <= seq);
    points.flat_map(|(_, cells)| cells).collect()
}

/// A run with a failed attempt, a verdict, a barrier, a new version, a pause and decisions.
const EVENTFUL: &str = "\
title: Eventful
budget: {money_micros: 5000000, attempts: 60}
barriers: [{id: both, members: [one, two], needs: any}]
steps:
  - {id: start, outputs: [rows], command: 'echo 7'}
  - {id: one, after: [start], retry: {max_attempts: 2}, command: 'test $LEDGER_ATTEMPT = 2 || { echo broken >&2; exit 1; }'}
  - {id: two, after: [start], retry: {max_attempts: 1}, command: 'exit 3'}
  - {id: judged, after: [start], acceptance: [it reads well], command: 'echo text'}
  - {id: gated, after: [both], gate: {question: Go on?}, command: 'true'}
  - {id: last, after: [gated, judged], owner: human}
";

fn eventful() -> Place {
    let place = Place::new();
    place.ledger("init").code(0);
    place.write("plan.yaml", EVENTFUL);
    place.ledger("run plan.yaml --run r --yes --quiet --text judge --on-unknown retry");
    place.ledger("accept r judged --by ana --evidence fluent").code(0);
    let next = EVENTFUL.replace("id: last,", "id: last, title: The end,");
    place.write("next.yaml", format!("{next}  - {{id: extra, after: [last], command: 'true'}}\n"));
    place.ledger("plan propose next.yaml --run r --reason more").code(0);
    place.ledger("pause r --by ana --reason lunch").code(0);
    place.ledger("unpause r --by ana").code(0);
    place.ledger("skip r two --by ben --reason unneeded").code(0);
    place.ledger("note seen --run r --by ana").code(0);
    place
}

/// Goal: the cells that the slider shows at a record are those of a page of that record, for every record,
/// although a record looks at the steps alone that it can change.
#[test]
fn slider_shows_every_record_as_its_own_page_does() {
    let place = eventful();
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    let last = place.ledger("report --html again.html --json").code(0).lines()[0]["seq"].as_u64();
    let last = last.unwrap();
    assert!(last > 30, "{last} records");
    assert!(points_of(&page).iter().any(|(seq, _)| *seq == last), "a note is a record, too");
    for seq in 1..=last {
        place.ledger(&format!("report --html at-{seq}.html --at {seq}")).code(0);
        let own = place.read(&format!("at-{seq}.html"));
        assert_eq!(cells_at(&page, seq), cells_at(&own, u64::MAX), "record {seq}");
    }
}

/// Goal: attempts, verdicts, evidence, differences of versions, reasons, budgets and decisions are there.
#[test]
fn report_says_everything_about_a_run() {
    let place = eventful();
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    for words in [
        "exit status 1: broken",
        "criterion 1 passes, judged by ana",
        "fluent",
        "Differences from version 1",
        "1 step added: extra",
        "The end",
        "waits for the answer to question",
        "Why it is not dispatched",
        "part      spent",
        "paused by ana: lunch",
        "skipped by ben: unneeded",
        "No damage was found",
        "class=\"bar bad\"",
        "href=\"#log\"",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let released = "released, 1 of 1 needed arrived (2 members)";
    let mut cells = points_of(&page).into_iter().flat_map(|(_, cells)| cells.into_values());
    assert!(cells.any(|cell| cell == released), "the barrier before a member was skipped");
    // What was answered is hidden, and what is open is not.
    assert_eq!(page.matches("<li id=\"question-").count(), 1);
}

/// Goal: a browser builds a long plan in pieces, each from the record on that has its steps; without a script it
/// reads all of them.
#[test]
fn long_plan_is_written_in_chunks() {
    let place = Place::new();
    let steps: Vec<_> = (1..=501).map(|number| format!("  - {{id: step-{number}}}\n")).collect();
    place.write("plan.yaml", format!("steps:\n{}", steps.concat()));
    place.ledger("init").code(0);
    place.ledger("plan propose plan.yaml --run r").code(0);
    place.ledger("report --html page.html").code(0);
    let page = place.read("page.html");
    let chunks: Vec<_> = page.split("<div class=\"chunk\"").skip(1).collect();
    assert_eq!(chunks.len(), 3);
    for (chunk, count) in chunks.iter().zip([250, 250, 1]) {
        let (head, text) = chunk.split_once("><noscript>").unwrap();
        assert!(head.contains(&format!("data-steps=\"{count}\"")), "{head}");
        let first = head.split("data-f=\"").nth(1).unwrap().split('"').next().unwrap();
        let text = text.split("</noscript>").next().unwrap();
        let step = "<details class=\"step\" id=\"step-";
        assert_eq!(text.matches(step).count(), count);
        assert_eq!(text.matches(&format!("\" data-f=\"{first}\"><summary>")).count(), count);
    }
}
