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
