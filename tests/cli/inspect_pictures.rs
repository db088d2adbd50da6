//! `ledger inspect`'s pictures: timelines, graphs, charts.

use std::collections::BTreeSet;

use plan_ledger::{Ledger, Plan, Receipt, RunPolicy};
use serde_json::{Value, json};

use super::inspect::{Place, dispatch, environment, look, place, small};

/// Goal: each attempt has its place in the picture, and how it ended shows without colour.
#[test]
fn a_timeline_shows_every_attempt_and_how_it_ended() {
    let place = small();
    let picture = look(&place.dir, &["timeline", "small"]);
    let row = |id: &str| {
        let line = picture.out.lines().find(|line| line.contains(id));
        line.unwrap_or_else(|| panic!("no {id} in {}", picture.out)).to_owned()
    };
    let ends = |line: &str, end: char| line.chars().filter(|c| *c == end).count();
    // The bar stands between two strokes.
    let bar = |id: &str| row(id).split('|').nth(1).unwrap().to_owned();
    assert_eq!((ends(&bar("#1 flaky"), 'x'), ends(&bar("#1 flaky"), '+')), (1, 1));
    assert_eq!((ends(&bar("#2 slow"), '!'), ends(&bar("#2 slow"), '+')), (1, 1));
    assert!(bar("#2 slow").contains('~'), "it waits for a verdict");
    assert!(
        bar("#3 mail").contains("!?") && bar("#3 mail").ends_with('>'),
        "its outcome is unknown"
    );
    assert_eq!(ends(&bar("#4 never"), 'x'), 1);
    assert!(!picture.out.contains("#5"), "an undispatched step has no interval");
    assert!(row("#1 flaky").starts_with("[+]") && row("#4 never").starts_with("[x]"));
    assert!(row("#1 flaky").contains("2x "));
    let widths: BTreeSet<usize> = picture
        .out
        .lines()
        .filter(|line| line.contains('|'))
        .map(|line| line.find('|').unwrap())
        .collect();
    assert_eq!(widths.len(), 1, "bars stand below each other");
    let json = look(&place.dir, &["timeline", "--json"]).of_type("interval");
    let attempts = json.iter().filter(|each| !each["worker"].is_null()).count();
    assert_eq!(attempts, 6);
    let lost = json.iter().filter(|each| each["kind"] == "lost").count();
    assert_eq!(lost, 2);
}

/// A plan whose ids are what no picture should choke on.
fn nasty() -> Place {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let plan: Plan = serde_json::from_value(json!({
        "title": "Nasty",
        "steps": [
            {"id": "say \"hi\"", "title": "quotes"},
            {"id": "back\\slash", "after": ["say \"hi\""]},
            {"id": "<b>#1;</b>", "after": ["say \"hi\"", "all-of-it"]},
            {"id": "x[y]{z}", "after": ["<b>#1;</b>"]},
        ],
        "barriers": [{"id": "all-of-it", "members": ["back\\slash"]}],
    }))
    .unwrap();
    let run = ledger.start_run("nasty", &plan, RunPolicy::default()).unwrap();
    let token = dispatch(&ledger, run);
    ledger.record_receipt(token, Receipt::default()).unwrap();
    dispatch(&ledger, run);
    ledger.close().unwrap();
    place
}

/// Goal: whatever ids are, each form of the graph has every node and every edge.
#[test]
fn a_graph_has_every_node_and_every_edge() {
    let place = nasty();
    let nodes = look(&place.dir, &["graph", "--json"]).of_type("node");
    assert_eq!(nodes.len(), 5);
    let edges: usize = nodes.iter().map(|node| node["waits_for"].as_array().unwrap().len()).sum();
    assert_eq!(edges, 5);
    let statuses: Vec<&Value> = nodes.iter().map(|node| &node["status"]).collect();
    assert!(statuses.contains(&&json!("accepted")) && statuses.contains(&&json!("closed")));

    look(&place.dir, &["graph"])
        .has("[+] #1 say \"hi\"  quotes\n")
        .has("[>] #2 back\\slash")
        .has("( ) barrier all-of-it 0/1")
        .has("[ ] #3 <b>#1;</b> (also after say \"hi\")")
        .has("-> [ ] #4 x[y]{z}")
        .has("[>] dispatched");

    let dot = look(&place.dir, &["graph", "--format", "dot"]);
    assert_eq!(dot.out.matches(" -> ").count(), edges);
    dot.has("digraph \"nasty\" {")
        .has("  \"say \\\"hi\\\"\" [label=\"#1 say \\\"hi\\\"\\naccepted\"")
        .has("  \"back\\\\slash\" -> \"all-of-it\";");
    assert!(dot.out.ends_with("}\n"));

    let mermaid = look(&place.dir, &["graph", "--format", "mermaid"]);
    assert_eq!(mermaid.out.matches(" --> ").count(), edges);
    mermaid
        .has("flowchart LR\n")
        .has("  n0[\"#35;1 say #quot;hi#quot;\"]:::accepted\n")
        .has("  n2[\"#35;3 #lt;b#gt;#35;1;#lt;/b#gt;\"]:::waiting\n")
        .has("  n4{\"all-of-it\"}\n")
        .has("  classDef accepted fill:");
}

/// Goal: a chart of what is left begins at the limit, never rises as long as nothing is corrected,
/// and ends at what the books say.
#[test]
fn what_is_left_goes_down_to_what_the_books_say() {
    let place = place();
    let ledger = Ledger::create(&place.dir, &environment()).unwrap();
    let steps: Vec<Value> = (1..=8).map(|n| json!({"id": format!("s{n}")})).collect();
    let plan = json!({"title": "Dear", "steps": steps, "budget": {"tokens": 1000, "attempts": 10}});
    let plan: Plan = serde_json::from_value(plan).unwrap();
    let run = ledger.start_run("dear", &plan, RunPolicy::default()).unwrap();
    for tokens in [100, 200, 300] {
        let cost = plan_ledger::Cost { money_micros: 0, tokens };
        let token = dispatch(&ledger, run);
        ledger.record_receipt(token, Receipt { cost, ..Receipt::default() }).unwrap();
    }
    ledger.close().unwrap();
    let json = look(&place.dir, &["budget", "dear", "--chart", "--json"]);
    let course = json.of_type("milestone");
    let spent: Vec<u64> =
        course.iter().map(|each| each["spent"]["tokens"].as_u64().unwrap()).collect();
    assert!(spent.is_sorted() && spent.last() == Some(&600), "{spent:?}");
    let tokens =
        json.of_type("budget_part").into_iter().find(|part| part["part"] == "tokens").unwrap();
    assert_eq!((&tokens["left"], &tokens["limit"]), (&json!(400), &json!(1000)));
    let text = look(&place.dir, &["budget", "dear", "--chart"]);
    text.has("tokens    600    -         -          1,000     400")
        .has("[#########-------]")
        .has("remaining tokens")
        .has("remaining attempts")
        .has("  1,000 |###");
    assert!(!text.out.contains("remaining money"), "money has no limit");
    look(&place.dir, &["progress"]).has("] 3/8 accepted, 5 ready").has("  8 |##");
}
