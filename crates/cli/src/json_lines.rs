//! Every line that the commands print with `--json`: its type and the commands that print it.

use crate::commands::get::VariableLine;
use crate::commands::inspect::AsOfLine;
use crate::commands::root::RootLine;
use crate::json::JsonLine;

/// Gives each line its `type`, and adds all of them to the published schema.
macro_rules! json_lines {
    ($($word:literal of $($command:ident),+ => $line:ty;)*) => {
        $(impl JsonLine for $line {
            const TYPE: Option<&'static str> = Some($word);
        })*

        #[cfg(test)]
        pub(crate) fn add_all(schema: &mut crate::json::PublishedSchema) {
            crate::requests::add_answers(schema);
            $($(schema.add::<$line>(stringify!($command));)+)*
        }
    };
}

json_lines! {
    "as_of" of inspect, status => AsOfLine<'_>;
    "root" of root => RootLine;
    "variable" of get => VariableLine;
}

#[cfg(test)]
mod tests {
    //! Goal: the published schema is that of the types.

    use std::path::PathBuf;

    use serde_json::Value;

    use crate::json::PublishedSchema;

    /// The published file.
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../format/json-lines.schema.json")
    }

    /// `UPDATE_GOLDEN=1` writes the file again.
    #[test]
    fn published_schema_of_lines_matches_the_types() {
        let read = || serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap();
        let mut published: Value = read();
        let mut schema = PublishedSchema::new();
        super::add_all(&mut schema);
        let generated = schema.finish(&published);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(path(), format!("{generated:#}\n")).unwrap();
            published = read();
        }
        assert!(
            published == generated,
            "format/json-lines.schema.json is stale; run with UPDATE_GOLDEN=1"
        );
    }
}
