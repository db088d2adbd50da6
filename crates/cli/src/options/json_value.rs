//! Values that are given on the command line, in a file or on standard input.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use serde_json::Value;

use plan_ledger::Error;
use plan_ledger_files::json_problem;

use crate::output::{Failure, print_message};
use crate::protocol::{MESSAGE_LENGTH_MAX, expect_short_numbers, too_long};

/// A value: JSON, or else text. `@FILE` reads a file, `-` reads standard input.
pub(crate) fn read_json_value(text: &str) -> Result<Value, Failure> {
    let text = match text.strip_prefix('@') {
        Some(file) => read_text(file)?,
        None if text == "-" => read_text(text)?,
        None => text.to_owned(),
    };
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let Ok(value) = serde_json::from_str(text) else {
        warn_of_broken_json(text);
        return Ok(Value::String(text.to_owned()));
    };
    expect_short_numbers(text)?;
    Ok(value)
}

/// Warns about a text that looks like JSON and is not: it is taken as text.
fn warn_of_broken_json(text: &str) {
    if text.trim_start().starts_with(['{', '['])
        && let Some(problem) = json_problem(text)
    {
        print_message(&format!("warning: the value is taken as text, not as JSON: {problem}"));
    }
}

/// The text of a file; `-` is standard input.
pub(crate) fn read_text(file: &str) -> Result<String, Failure> {
    if file == "-" {
        let text = read_bounded(io::stdin().lock())
            .map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
        return text.ok_or_else(|| too_long("standard input"));
    }
    let path = Path::new(file);
    let failed = |error| Failure::Usage(Error::io("read the file", path, error).to_string());
    let text = fs::File::open(path).and_then(read_bounded).map_err(failed)?;
    text.ok_or_else(|| too_long(file))
}

/// The whole text, or `None` if it exceeds the limit of a request, since some files have no end.
fn read_bounded(from: impl Read) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    from.take(MESSAGE_LENGTH_MAX + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= MESSAGE_LENGTH_MAX) {
        let invalid = |_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text");
        return String::from_utf8(bytes).map(Some).map_err(invalid);
    }
    Ok(None)
}
