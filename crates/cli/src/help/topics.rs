//! Help on topics that are not commands: `ledger help exit-codes`.

/// The topics and their texts.
pub(crate) const TOPICS: [(&str, &str); 6] = [
    ("exit-codes", include_str!("topics/exit-codes.txt")),
    ("environment", include_str!("topics/environment.txt")),
    ("plan-file", include_str!("topics/plan-file.txt")),
    ("worker", include_str!("topics/worker.txt")),
    ("glossary", include_str!("topics/glossary.txt")),
    ("git", include_str!("topics/git.txt")),
];

/// The text of a topic.
pub(crate) fn topic(name: &str) -> Option<&'static str> {
    TOPICS.iter().find(|(topic, _)| *topic == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    //! Goal: topics fit a terminal, and list every field of plans and receipts.

    use std::collections::BTreeSet;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    /// The headings of the lists of fields, and the definitions in the published schemas; `""` is the
    /// plan itself.
    const LISTS: [(&str, &str, &str, &str); 17] = [
        ("plan-file", "the plan", "plan.schema.json", ""),
        ("plan-file", "a step", "plan.schema.json", "Step"),
        ("plan-file", "a gate", "plan.schema.json", "Gate"),
        ("plan-file", "`retry`", "plan.schema.json", "RetryPolicy"),
        ("plan-file", "a barrier", "plan.schema.json", "Barrier"),
        ("plan-file", "a phase", "plan.schema.json", "Phase"),
        ("plan-file", "an input", "plan.schema.json", "PlanInput"),
        ("plan-file", "`caps`", "plan.schema.json", "Caps"),
        ("plan-file", "an owner in `owners`", "plan.schema.json", "OwnerSettings"),
        ("plan-file", "`limit`", "plan.schema.json", "OwnerLimit"),
        ("plan-file", "`budget`", "plan.schema.json", "Budget"),
        ("plan-file", "a cost", "plan.schema.json", "Cost"),
        ("plan-file", "`failure`", "plan.schema.json", "FailurePolicy"),
        ("plan-file", "a rule", "plan.schema.json", "FailureRule"),
        ("plan-file", "`when`", "plan.schema.json", "FailureMatch"),
        ("plan-file", "`defaults`", "plan.schema.json", "Defaults"),
        ("worker", "a receipt", "requests.schema.json", "ReceiptFile"),
    ];

    /// The names in the list under a heading.
    fn listed(text: &str, heading: &str) -> BTreeSet<String> {
        let (_, rest) = text.split_once(&format!("Fields of {heading}:\n\n")).expect(heading);
        let lines = rest.lines().take_while(|line| line.starts_with("  "));
        // A line that is indented further continues the one before.
        let lines = lines.filter(|line| !line.starts_with("   "));
        lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    }

    #[test]
    fn topics_list_every_field_of_plans_and_receipts() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../format");
        for (name, heading, file, definition) in LISTS {
            let schema = std::fs::read_to_string(folder.join(file)).unwrap();
            let schema: Value = serde_json::from_str(&schema).unwrap();
            let found = if definition.is_empty() { &schema } else { &schema["$defs"][definition] };
            let fields = found["properties"].as_object().expect(definition).keys().cloned();
            let expected: BTreeSet<String> = fields.collect();
            assert_eq!(listed(topic(name).unwrap(), heading), expected, "{name}: {heading}");
        }
        let plan: Value = serde_json::from_str(
            &std::fs::read_to_string(folder.join("plan.schema.json")).unwrap(),
        )
        .unwrap();
        for (name, definition) in plan["$defs"].as_object().unwrap() {
            let is_listed = LISTS.iter().any(|(.., known)| known == name);
            let has_fields = definition.get("properties").is_some();
            assert!(is_listed || !has_fields, "no list of the fields of {name}");
        }
    }

    #[test]
    fn topics_fit_100_columns() {
        for (name, text) in TOPICS {
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
        }
    }
}
