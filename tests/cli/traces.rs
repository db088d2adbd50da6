//! Goal: a worker knows its place in the trace of its run, and the export names the same spans.

use std::collections::BTreeMap;

use serde_json::Value;

use super::command::Place;

const PLAN: &str = "\
title: Traced
steps:
  - {id: hosted, command: 'cat > $LEDGER_STEP-$LEDGER_ATTEMPT.json; echo $TRACEPARENT > $LEDGER_STEP-$LEDGER_ATTEMPT.txt; test $LEDGER_ATTEMPT = 2', retry: {max_attempts: 2}}
  - {id: checked, after: [hosted], acceptance: [{command: 'echo -$TRACEPARENT- > check.txt'}], command: 'true'}
  - {id: external, after: [checked], owner: human}
";

/// The trace and the span of each attempt in the export, by the name of the step and the attempt.
fn exported(place: &Place) -> BTreeMap<String, String> {
    let text = place.ledger("export .ledger --format otlp").code(0).out;
    let export: Value = serde_json::from_str(&text).unwrap();
    let spans = export["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let number = |span: &Value, key: &str| {
        let attributes = span["attributes"].as_array().unwrap();
        let found = attributes.iter().find(|attribute| attribute["key"] == key);
        found.map(|attribute| attribute["value"]["intValue"].as_str().unwrap().to_owned())
    };
    let attempts = spans.iter().filter_map(|span| {
        let attempt = number(span, "plan_ledger.attempt")?;
        let word = |name: &str| span[name].as_str().unwrap().to_owned();
        let name = format!("{}-{attempt}", word("name"));
        Some((name, format!("00-{}-{}-01", word("traceId"), word("spanId"))))
    });
    attempts.collect()
}

#[test]
fn workers_get_the_spans_of_the_export() {
    let place = Place::new();
    place.ledger("init").code(0);
    place.write("plan.yaml", PLAN);
    let outer = "00-11111111111111111111111111111111-2222222222222222-01";
    let command = "cat > $LEDGER_STEP-$LEDGER_ATTEMPT.json; \
                   echo $TRACEPARENT > $LEDGER_STEP-$LEDGER_ATTEMPT.txt";
    let run: &[&str] =
        &["run", "plan.yaml", "--run", "r", "--yes", "--quiet", "--on-unknown", "retry"];
    let work: &[&str] = &["work", "r", "--owner", "human", "--", "sh", "-c", command];
    for words in [run, work] {
        let mut command = place.command(words);
        command.env("TRACEPARENT", outer).output().unwrap();
    }
    let spans = exported(&place);
    for name in ["hosted-1", "hosted-2", "external-1"] {
        let span = spans.get(name).unwrap_or_else(|| panic!("{name} is not in {spans:?}"));
        assert_eq!(place.read(&format!("{name}.txt")).trim(), span, "{name}");
        let task: Value = serde_json::from_str(&place.read(&format!("{name}.json"))).unwrap();
        assert_eq!(task["traceparent"].as_str(), Some(span.as_str()), "{name}");
    }
    assert_eq!(place.read("check.txt").trim(), "--", "a check is no worker");
    assert_ne!(spans["hosted-1"], spans["hosted-2"]);
}
