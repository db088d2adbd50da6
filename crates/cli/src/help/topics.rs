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
    //! Goal: topics fit a terminal.

    use super::*;

    #[test]
    fn topics_fit_100_columns() {
        for (name, text) in TOPICS {
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{name}: {line}");
            }
        }
    }
}
