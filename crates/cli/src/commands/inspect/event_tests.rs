//! Goal: every kind of event, in every schema, has a phrase for people and the members that the
//! published page names. The events are those of the golden ledgers.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use plan_ledger::Event;
use plan_ledger::internals::format::{Chain, Codec};
use plan_ledger::internals::ledger::{Kind, decode};
use plan_ledger::log::LoggedRecord;

use plan_ledger_views::event_text;

fn root(name: &str) -> String {
    let path = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("format")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// `kind number codec payload`, and `schema N` where it is not 1.
fn record(line: &str) -> (String, LoggedRecord) {
    let words: Vec<&str> = line.split(' ').collect();
    let hex =
        |place: usize| u8::from_str_radix(words[3].get(place..place + 2).unwrap(), 16).unwrap();
    let record = LoggedRecord {
        seq: 9,
        time: 9,
        kind: words[1].parse().unwrap(),
        codec: if words[2] == "json" { Codec::Json } else { Codec::Bincode },
        schema: words.get(5).map_or(1, |schema| schema.parse().unwrap()),
        batch_left: 0,
        payload: (0..words[3].len()).step_by(2).map(hex).collect(),
        chain: Chain([0; 32]),
        segment: 0,
        offset: 0,
        size: 0,
    };
    (words[0].to_owned(), record)
}

/// The members that the page names for events of that kind.
fn documented(page: &str, kind: &str, number: u16) -> BTreeSet<String> {
    let row = page.lines().find(|row| row.starts_with(&format!("| `{kind}` |")));
    let row = row.unwrap_or_else(|| panic!("no row for {kind}"));
    let names = row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2);
    let of_step = if number >= 32 { &["run", "step", "previous"][..] } else { &[] };
    names.chain(of_step.iter().copied()).map(str::to_owned).collect()
}

fn json_of(event: &Event) -> Value {
    serde_json::to_value(event).unwrap()
}

/// Asserts that an event matches the schema of its kind, without further members.
fn expect_published(schema: &Value, kind: &str, event: &Value) {
    let name = format!("event_{kind}");
    let members = |of: &Value| of.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let definition = &schema["$defs"][&name];
    let required = definition["required"].as_array().unwrap().iter();
    let required: BTreeSet<String> =
        required.map(|name| name.as_str().unwrap().to_owned()).collect();
    let (found, known) = (members(event), members(&definition["properties"]));
    assert!(required.is_subset(&found) && found.is_subset(&known), "{name}: {found:?}");
    let of_kind = json!({ "$defs": schema["$defs"], "$ref": format!("#/$defs/{name}") });
    let validator = jsonschema::validator_for(&of_kind).unwrap();
    let faults: Vec<_> = validator.iter_errors(event).map(|fault| fault.to_string()).collect();
    assert!(faults.is_empty(), "{name}: {faults:?}\n{event}");
}

#[test]
fn every_event_is_shown_as_it_is_published() {
    let (page, golden) = (root("inspect-json.md"), root("golden/events.txt"));
    let schema = serde_json::from_str(&root("json-lines.schema.json")).unwrap();
    let mut kinds = BTreeSet::new();
    for line in golden.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (kind, record) = record(line);
        let event = decode(&record).unwrap().expect("an event");
        let text = event_text(&event);
        let is_shown = !text.is_empty() && !text.contains('\n') && text.is_ascii();
        assert!(is_shown, "{kind}: {text:?}");
        let members: BTreeSet<String> =
            json_of(&event).as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, documented(&page, &kind, record.kind), "{kind}");
        expect_published(&schema, &kind, &json_of(&event));
        kinds.insert(record.kind);
    }
    let all: BTreeSet<u16> =
        Kind::ALL.iter().map(|kind| kind.number()).filter(|number| *number < 64).collect();
    assert_eq!(kinds, all, "every kind has an event with fixed bytes");
}
