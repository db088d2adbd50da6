//! Errors of the command line in plain words: replaces the messages of the number parser.

/// Messages of the standard library, and their plain forms.
const MESSAGES: [(&str, &str); 6] = [
    ("invalid digit found in string", "expected a whole number"),
    ("cannot parse integer from empty string", "expected a whole number"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
    ("invalid float literal", "expected a number"),
    ("cannot parse float from empty string", "expected a number"),
];

/// The rendered error of the command line in plain words.
pub(crate) fn plain_words(error: &str) -> String {
    let mut lines: Vec<String> = error.lines().map(str::to_owned).collect();
    if let Some(first) = lines.first_mut() {
        for (message, plain) in MESSAGES {
            if let Some(start) = first.strip_suffix(message) {
                *first = format!("{start}{plain}");
            }
        }
        if let Some(plain) = plain_range(first) {
            *first = plain;
        }
    }
    lines.iter().map(|line| named_once(line)).collect::<Vec<_>>().join("\n")
}

/// `<STEP> <STEP>...`, for two or more words, as `<STEP>`.
fn named_once(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some((before, from)) = rest.split_once('<') {
        let Some((name, after)) = from.split_once('>') else { break };
        text.extend([before, "<", name, ">"]);
        rest = after.strip_prefix(&format!(" <{name}>...")).unwrap_or(after);
    }
    text.push_str(rest);
    text
}

/// `...: 0 is not in 1..=8` as `...: expected a number from 1 to 8`.
fn plain_range(line: &str) -> Option<String> {
    let (start, range) = line.rsplit_once(" is not in ")?;
    let (start, _) = start.rsplit_once(": ")?;
    let (low, high) = range.split_once("..")?;
    let high = match high.strip_prefix('=') {
        Some(high) => high.parse::<u64>().ok()?,
        None => high.parse::<u64>().ok()?.checked_sub(1)?,
    };
    // A bound of the type is not a bound of the option.
    let is_open =
        [u64::from(u16::MAX), u64::from(u32::MAX), u64::MAX, u64::MAX - 1].contains(&high);
    let end =
        if is_open { format!("at least {low}") } else { format!("a number from {low} to {high}") };
    Some(format!("{start}: expected {end}"))
}

#[cfg(test)]
mod tests {
    //! Goal: an error states the expected value.

    use super::*;

    #[test]
    fn words_of_the_parser_are_replaced() {
        let say = |text: &str| plain_words(text);
        assert_eq!(
            say("error: invalid value 'x' for '<SEQ>': invalid digit found in string\n\nmore"),
            "error: invalid value 'x' for '<SEQ>': expected a whole number\n\nmore"
        );
        assert_eq!(
            say("error: invalid value '0' for '--n <N>': 0 is not in 1..18446744073709551615"),
            "error: invalid value '0' for '--n <N>': expected at least 1"
        );
        assert_eq!(
            say("error: invalid value '9' for '--n <N>': 9 is not in 0..=8"),
            "error: invalid value '9' for '--n <N>': expected a number from 0 to 8"
        );
        assert_eq!(say("error: unexpected argument\nhint"), "error: unexpected argument\nhint");
        assert_eq!(
            say("Usage: ledger decide <A> <[RUN] STEP> <[RUN] STEP>... <B> <C>..., < x"),
            "Usage: ledger decide <A> <[RUN] STEP> <B> <C>..., < x"
        );
    }
}
