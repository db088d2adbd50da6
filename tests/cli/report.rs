//! Goal: a report is one file that needs nothing else, shows the run at its last record, and escapes what
//! plans and workers write.

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
    let data = page.split("id=\"points\">").nth(1).unwrap().split("</script>").next().unwrap();
    let points: serde_json::Value = serde_json::from_str(data).unwrap();
    let mut cells = std::collections::BTreeMap::new();
    let mut last = 0;
    for point in points.as_array().unwrap() {
        let seq = point[0].as_u64().unwrap();
        assert!(seq >= last, "points are in the order of records");
        last = seq;
        for (key, value) in point[2].as_object().unwrap() {
            cells.insert(key.clone(), value.as_str().unwrap().to_owned());
        }
    }
    assert_eq!(
        (cells["s1"].as_str(), cells["s2"].as_str(), cells["s3"].as_str()),
        ("accepted", "gated", "waiting")
    );
    assert_eq!(cells["questions"], "1");
}
