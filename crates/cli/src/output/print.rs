//! Prints results on standard output and messages on standard error.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use crate::json::{JsonLine, line_value};
use crate::protocol::{Answer, Code, Failure, OWN_LEDGER, in_ledger};
use crate::requests::answer_text;

use super::render::{Paint, escape_json, escape_lines, stderr_style, stdout_style};

/// The ledger of this command, as its commands have to name it.
static LEDGER: OnceLock<PathBuf> = OnceLock::new();

/// Sets the ledger that the commands in messages name.
pub(crate) fn name_ledger(ledger: PathBuf) {
    // The first one counts: a process has one command line.
    let _ = LEDGER.set(ledger);
}

/// A message in which the commands name the ledger of this command.
fn with_ledger(message: &str) -> String {
    in_ledger(message, LEDGER.get().map_or(Path::new(OWN_LEDGER), PathBuf::as_path))
}

/// A line; the texts of an error name the ledger of this command.
pub(crate) fn line_with_ledger(line: &Value) -> Value {
    let mut line = line.clone();
    if line.get("type").is_some_and(|tag| tag == "error") {
        for member in ["message", "hint"] {
            if let Some(Value::String(text)) = line.get_mut(member) {
                *text = with_ledger(text);
            }
        }
    }
    line
}

/// Whether the command line has `--quiet`.
static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out the notes of this process.
pub(crate) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether notes are left out.
pub(crate) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// Prints a note for people on standard error, unless the command line has `--quiet`.
pub(crate) fn print_note(line: &str) {
    if !is_quiet() {
        print_message(line);
    }
}

/// Prints a message for people on standard error.
pub(crate) fn print_message(line: &str) {
    let text = stderr_style().wrap(&format!("ledger: {}", escape_lines(&with_ledger(line))));
    // If standard error is closed, the message has no reader.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints an error on standard error; its hint, if it has one, is its last line.
pub(crate) fn print_error(message: &str) {
    let style = stderr_style();
    let message = escape_lines(&with_ledger(message));
    let mut text = format!("{} {message}", style.paint(Paint::Bad, "error:"));
    if let Some((start, hint)) = text.rsplit_once("\nhint: ") {
        text = format!("{start}\n{} {hint}", style.paint(Paint::Notice, "hint:"));
    }
    let _ = writeln!(io::stderr().lock(), "{}", style.wrap(&text));
}

/// Prints text for people on standard output, escaped, and wrapped to the terminal.
pub(crate) fn print_text(text: &str) -> Result<(), Failure> {
    print_raw(&wrapped_text(text))
}

/// Text for people as it is printed on standard output: escaped, and wrapped to the terminal.
pub(crate) fn wrapped_text(text: &str) -> String {
    stdout_style().wrap(&escape_lines(text))
}

/// Prints text on standard output, byte for byte.
pub(crate) fn print_raw(text: &str) -> Result<(), Failure> {
    print_raw_to(&mut io::stdout().lock(), text)
}

/// Writes text byte for byte. A reader that has closed its end is not an error.
pub(crate) fn print_raw_to(out: &mut dyn Write, text: &str) -> Result<(), Failure> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Output(error)),
        _ => Ok(()),
    }
}

/// Prints a line that is already JSON: the answer of a server.
pub(crate) fn print_json(value: &Value) -> Result<(), Failure> {
    print_raw(&escape_json(&format!("{value}\n")))
}

/// Prints one JSON line on standard output.
pub(crate) fn print_line<L: JsonLine>(line: &L) -> Result<(), Failure> {
    print_json(&line_value(line))
}

/// Prints the result of a command: its line, or text for people.
pub(crate) fn print_result<L: JsonLine>(
    as_json: bool,
    line: &L,
    text: &str,
) -> Result<(), Failure> {
    if as_json { print_line(line) } else { print_text(&format!("{text}\n")) }
}

/// Prints the answer to a request and returns its exit code.
pub(crate) fn print_answer(as_json: bool, answer: &Answer) -> Result<Code, Failure> {
    print_messages(answer);
    if as_json {
        answer.lines.iter().try_for_each(|line| print_json(&line_with_ledger(line)))?;
    } else {
        let text = with_ledger(&answer_text(answer));
        if !text.is_empty() {
            print_text(&format!("{text}\n"))?;
        }
    }
    Ok(Code::of(answer.code))
}

/// Prints the answer to a request on standard error and returns its exit code.
pub(crate) fn print_answer_aside(as_json: bool, answer: &Answer) -> Result<Code, Failure> {
    print_messages(answer);
    let mut err = io::stderr().lock();
    if as_json {
        for line in &answer.lines {
            print_raw_to(&mut err, &escape_json(&format!("{}\n", line_with_ledger(line))))?;
        }
    } else {
        let text = with_ledger(&answer_text(answer));
        if !text.is_empty() {
            print_raw_to(&mut err, &escape_lines(&format!("{text}\n")))?;
        }
    }
    Ok(Code::of(answer.code))
}

fn print_messages(answer: &Answer) {
    let is_error = |line: &Value| line.get("type").is_some_and(|tag| tag == "error");
    let print_line =
        if answer.lines.first().is_some_and(is_error) { print_error } else { print_note };
    answer.messages.iter().for_each(|line| print_line(line));
}
