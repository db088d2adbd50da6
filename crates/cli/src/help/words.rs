//! The words of a command line before an option.

/// The words before an option, which may have its value with it.
pub(super) fn words_before<'a>(words: &'a [String], option: &str) -> &'a [String] {
    let is_it = |word: &String| {
        word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
    };
    let end = words.iter().position(is_it).unwrap_or(words.len());
    words.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    //! Goal: an option is found with and without its value.

    use super::*;

    #[test]
    fn words_before_an_option_end_at_it() {
        let words: Vec<String> = ["claim", "--json", "--sevrer=x"].map(str::to_owned).to_vec();
        assert_eq!(words_before(&words, "--sevrer"), &words[..2]);
        assert_eq!(words_before(&words, "--sev"), &words[..]);
    }
}
