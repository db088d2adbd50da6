//! The sentences of agent hosts and their providers about a usage limit.
//!
//! A sentence must begin a line, after a time and words such as `error:`, and be among the last lines. Colours do not
//! count, and text that a carriage return overwrites counts as a separate line.

/// The number of last lines that are read.
const LINES_MAX: usize = 3;

/// The length limit for reading a line, in characters.
const LINE_LENGTH_MAX: usize = 1000;

/// The beginning of a sentence, and words of which it must contain at least one.
const SENTENCES: &[(&str, &[&str])] = &[
    ("you've hit your", &["limit", "quota"]),
    ("you have hit your", &["limit", "quota"]),
    ("you've reached your", &["limit", "quota"]),
    ("you have reached your", &["limit", "quota"]),
    ("you have exhausted your", &["capacity", "quota"]),
    ("your quota will reset", &[""]),
    ("you've hit a rate limit", &[""]),
    ("sorry, you've hit a rate limit", &[""]),
    ("you're out of usage", &[""]),
    ("you're out of extra usage", &[""]),
    ("you exceeded your current quota", &[""]),
    ("sorry, you have been rate-limited", &[""]),
    ("your org is out of usage", &[""]),
    ("your group's usage limit", &[""]),
    ("your usage allocation", &["disabled"]),
    ("claude ai usage limit reached", &[""]),
    ("claude usage limit reached", &[""]),
    ("the usage limit has been reached", &[""]),
    ("free usage exceeded", &[""]),
    ("quota exceeded", &[""]),
    ("rate limit exceeded", &[""]),
    ("request rejected (429)", &[""]),
    ("429 ", &["rate limit", "rate_limit", "too many requests", "quota"]),
    ("too many requests", &[""]),
    ("exceeded retry limit, last status: 429", &[""]),
    ("to use codex with your chatgpt plan, upgrade", &[""]),
    ("credit balance is too low", &[""]),
];

/// The subject of a sentence that ends with `limit reached`, such as `5-hour limit reached`.
const KINDS: &[&str] =
    &["usage", "rate", "hour", "session", "daily", "weekly", "monthly", "opus", "sonnet", "haiku"];

/// Words of a limit that a person ends, if the sentence names no time.
const FOR_PERSON: &[&str] = &[
    "spend limit",
    "disabled by your admin",
    "ask your admin",
    "add funds",
    "set to $0",
    "out of usage credits",
    "plan and billing",
    "with your chatgpt plan, upgrade",
    "credit balance is too low",
];

/// Words before a sentence.
const LABELS: &[&str] =
    &["api error:", "[api error:", "stream error:", "[error]", "[warn]", "[warning]", "[info]"];

/// The text with straight apostrophes and without separators.
pub(super) fn straight(text: &str) -> String {
    let plain = |character: char| match character {
        '\u{2019}' | '\u{2018}' => '\'',
        '\u{b7}' | '\u{2219}' | '\u{2022}' | '\u{202f}' | '\u{a0}' | '\n' | '\r' | '\t' => ' ',
        other => other,
    };
    text.chars().map(plain).collect()
}

/// The text in lower case, with straight apostrophes and without separators.
fn plain(text: &str) -> String {
    straight(text).to_lowercase()
}

/// The text without escape sequences for colours and cursor movements.
pub(super) fn without_escapes(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, sequence)) = rest.split_once('\u{1b}') {
        found.push_str(before);
        let is_end = |it: char| ('\u{40}'..='\u{7e}').contains(&it);
        rest = match sequence.split_at_checked(1) {
            Some(("[", sequence)) => sequence.split_once(is_end).map_or("", |(_, rest)| rest),
            // A title or a link ends with BEL, or with ESC and a backslash.
            Some(("]", sequence)) => {
                let end = sequence.find(['\u{7}', '\u{1b}']).unwrap_or(sequence.len());
                let rest = sequence.get(end..).unwrap_or_default();
                rest.strip_prefix('\u{7}').or(rest.strip_prefix("\u{1b}\\")).unwrap_or(rest)
            }
            Some((_, rest)) => rest,
            None => sequence,
        };
    }
    found.push_str(rest);
    found
}

/// The sentence about a limit in the last lines of a text, with the lines after it.
pub(super) fn last_sentence(text: &str) -> Option<String> {
    let lines = text.split(['\n', '\r']).map(str::trim);
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(LINES_MAX)..).unwrap_or_default();
    let at = last.iter().rposition(|line| states_limit(line))?;
    let joined = last.get(at..).unwrap_or_default().join(" ");
    Some(joined.chars().take(LINE_LENGTH_MAX).collect())
}

/// Whether a limit that no time ends is stated.
pub(super) fn needs_person(sentence: &str) -> bool {
    let plain = plain(sentence);
    FOR_PERSON.iter().any(|words| plain.contains(words))
}

fn states_limit(line: &str) -> bool {
    let start: String = line.chars().take(LINE_LENGTH_MAX).collect();
    let line = plain(&start);
    let line = without_labels(&line);
    let has_one = |words: &[&str]| words.iter().any(|word| line.contains(word));
    SENTENCES.iter().any(|(start, words)| line.starts_with(start) && has_one(words))
        || names_kind(line)
}

/// Whether a line begins with words such as `5-hour limit reached`.
fn names_kind(line: &str) -> bool {
    let Some((before, _)) = line.split_once(" limit reached") else { return false };
    let mut words = before.split([' ', '-']);
    let last = words.next_back().unwrap_or_default();
    KINDS.contains(&last) && words.count() <= 1
}

/// The line without times and words such as `error:`, and without signs before it. Quotes and places in files stay:
/// they precede a sentence that is quoted.
fn without_labels(line: &str) -> &str {
    let mut line = line;
    loop {
        let is_sign = |sign: char| !sign.is_alphanumeric() && !"\"'`/<([{#$".contains(sign);
        line = line.trim_start_matches(is_sign);
        let label = LABELS.iter().find_map(|label| line.strip_prefix(label));
        let label = label.or_else(|| without_attempt(line)).or_else(|| without_time(line));
        let word = || {
            let (word, rest) = line.split_once(' ')?;
            let name = word.strip_suffix(':').or_else(|| (word == "error").then_some(word))?;
            name.chars().all(char::is_alphabetic).then_some(rest)
        };
        match label.or_else(word) {
            Some(rest) => line = rest,
            None => return line,
        }
    }
}

/// The line after a time, as programs write it into their logs: `2026-11-29T13:26:50Z`, `[13:26:50]`.
fn without_time(line: &str) -> Option<&str> {
    let (word, rest) = line.split_once(' ')?;
    let word = word.strip_prefix('[').unwrap_or(word).trim_end_matches([']', ':', ',']);
    let is_sign = |it: char| ":.,-/+".contains(it);
    let is_time = word.starts_with(|it: char| it.is_ascii_digit())
        && word.contains([':', '-', '/'])
        && word.chars().all(|it| it.is_ascii_digit() || is_sign(it) || it == 't' || it == 'z');
    is_time.then_some(rest)
}

/// The line after `attempt 3 failed: `: with these words, the Gemini CLI announces that it tries
/// again by itself.
fn without_attempt(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("attempt ")?;
    rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).strip_prefix(" failed:")
}
