//! Ids of tasks as they stand in Markdown, what stands in brackets behind them, and the tasks that
//! a text names.

/// What stands before the words of a task.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) id: Option<String>,
    /// What stands in brackets: `P`, `US1`.
    pub(super) tags: Vec<&'a str>,
    pub(super) text: &'a str,
}

/// How ids look in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ids {
    /// `T001`, `T031a`.
    SpecKit,
    /// Numbers with dots, or letters and numbers.
    Any,
    /// None are looked for.
    None,
}

/// Takes the id and the brackets from the words of a task.
pub(super) fn head(text: &str, ids: Ids) -> Head<'_> {
    let mut head = Head { id: None, tags: Vec::new(), text: text.trim() };
    loop {
        if let Some((tag, rest)) = bracketed(head.text) {
            if head.id.is_none() && is_id(tag, ids) {
                head.id = Some(tag.to_owned());
            } else {
                head.tags.push(tag);
            }
            head.text = rest;
        } else if let Some((id, rest)) =
            Some(head.text).filter(|_| head.id.is_none()).and_then(|text| leading_id(text, ids))
        {
            head.id = Some(id.to_owned());
            head.text = rest;
        } else {
            return head;
        }
    }
}

/// A word in brackets that is no link.
fn bracketed(text: &str) -> Option<(&str, &str)> {
    let (tag, rest) = text.strip_prefix('[')?.split_once(']')?;
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let is_tag = !tag.is_empty() && tag.len() <= 20 && tag.chars().all(is_word);
    let is_end = rest.is_empty() || rest.starts_with(char::is_whitespace) || rest.starts_with('[');
    (is_tag && is_end).then(|| (tag, rest.trim_start()))
}

/// An id at the beginning, with the words behind it.
fn leading_id(text: &str, ids: Ids) -> Option<(&str, &str)> {
    let marks: &[char] = &['*', '`', '_'];
    let start = text.trim_start_matches(marks);
    let (start, is_named) = ["Task ", "task ", "Step ", "step "]
        .iter()
        .find_map(|word| start.strip_prefix(word).filter(|rest| rest.starts_with(is_digit)))
        .map_or((start, false), |rest| (rest, true));
    let end = start.find(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c)));
    let (word, rest) = start.split_at(end.unwrap_or(start.len()));
    let id = word.trim_end_matches(['.', '-', '_']);
    // A plain number is an id only with a mark behind it: `3.`, `3)`, `3:`.
    let is_marked = id.len() < word.len() || rest.starts_with([')', ':', '*', '`']);
    let is_number = id.chars().all(is_digit);
    if !is_id(id, ids) || (is_number && !is_marked && !is_named) {
        return None;
    }
    let rest = rest.trim_start_matches(marks).trim_start();
    let rest = rest.trim_start_matches([':', ')', '.', '-', '\u{2013}', '\u{2014}']);
    Some((id, rest.trim_start()))
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit()
}

/// Whether a word is an id of that kind.
pub(super) fn is_id(word: &str, ids: Ids) -> bool {
    let digits = word.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = word.len().saturating_sub(digits.len());
    match ids {
        Ids::None => false,
        Ids::SpecKit => {
            let number = digits.trim_end_matches(|c: char| c.is_ascii_lowercase());
            let suffix = digits.len().saturating_sub(number.len());
            word.starts_with('T')
                && letters == 1
                && number.len() >= 2
                && suffix <= 2
                && number.chars().all(is_digit)
        }
        Ids::Any => {
            let number = digits.trim_start_matches(['-', '_']);
            let number = number.strip_suffix(|c: char| c.is_ascii_lowercase()).unwrap_or(number);
            let is_upper = word.chars().take(letters).all(|c| c.is_ascii_uppercase());
            letters <= 10
                && is_upper
                && number.starts_with(is_digit)
                && number.ends_with(is_digit)
                && !number.contains("..")
                && number.chars().all(|c| is_digit(c) || c == '.' || c == '-')
                && !(letters == 0 && number.contains('-'))
        }
    }
}

/// The ids that a text says it waits for: behind "depends on" or "blocked by", up to the first
/// word that is none.
pub(super) fn waits_for(text: &str, ids: Ids) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for words in ["depends on", "depends:", "blocked by", "(after ", "[after "] {
        for (at, _) in lower.match_indices(words) {
            let rest = text.get(at.saturating_add(words.len())..).unwrap_or_default();
            found.extend(listed(rest, ids));
        }
    }
    found
}

/// The ids at the beginning of a text; `T001-T003` stands for its two ends and all between.
fn listed(text: &str, ids: Ids) -> Vec<String> {
    let mut found = Vec::new();
    for word in text.split(|c: char| c.is_whitespace() || c == ',' || c == '&' || c == ';') {
        let is_end = word.ends_with([')', ']']);
        let word =
            word.trim_matches(|c: char| !(c.is_alphanumeric() || c == '-')).trim_matches('-');
        match word.split_once(['-', '\u{2013}']) {
            _ if is_id(word, ids) => found.push(word.to_owned()),
            Some((first, last)) if is_id(first, ids) && is_id(last, ids) => {
                found.push(format!("{first}-{last}"));
            }
            _ if ["", "and", "task", "tasks", "step", "steps", "on"]
                .contains(&word.to_ascii_lowercase().as_str()) => {}
            _ => break,
        }
        if is_end {
            break;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    //! Goal: ids are found in each of their forms, and words are none.

    use super::*;

    fn parts(text: &str, ids: Ids) -> (Option<String>, String, String) {
        let head = head(text, ids);
        (head.id, head.tags.join(" "), head.text.to_owned())
    }

    #[test]
    fn ids_have_many_forms() {
        let some = |id: &str, tags: &str, text: &str| {
            (Some(id.to_owned()), tags.to_owned(), text.to_owned())
        };
        let none = |text: &str| (None, String::new(), text.to_owned());
        assert_eq!(parts("T031a [P] [US2] Do it", Ids::SpecKit), some("T031a", "P US2", "Do it"));
        assert_eq!(parts("**T001** Do it", Ids::SpecKit), some("T001", "", "Do it"));
        assert_eq!(parts("[T001] [P] Do it", Ids::SpecKit), some("T001", "P", "Do it"));
        assert_eq!(parts("SC-001: x", Ids::SpecKit), none("SC-001: x"));
        assert_eq!(parts("Test it", Ids::SpecKit), none("Test it"));
        for (text, id) in [
            ("1.1 Do it", "1.1"),
            ("1. Do it", "1"),
            ("2) Do it", "2"),
            ("US-001: Do it", "US-001"),
            ("`API-7` Do it", "API-7"),
            ("Task 3: Do it", "3"),
            ("1.2.3b - Do it", "1.2.3b"),
        ] {
            assert_eq!(parts(text, Ids::Any), some(id, "", "Do it"), "{text}");
        }
        for text in ["3 apples", "see [1](x)", "[link](x) y", "utf8 is it", "a.b c", "10-20 lines"]
        {
            assert_eq!(parts(text, Ids::Any), none(text));
        }
    }

    #[test]
    fn texts_name_what_they_wait_for() {
        assert_eq!(waits_for("x (depends on T012, T013) y T9", Ids::SpecKit), ["T012", "T013"]);
        assert_eq!(waits_for("Depends on tasks 1.1 and 1.2.", Ids::Any), ["1.1", "1.2"]);
        assert_eq!(waits_for("(depends on T002-T005)", Ids::SpecKit), ["T002-T005"]);
        assert!(waits_for("depends on the weather and T001", Ids::SpecKit).is_empty());
    }
}
