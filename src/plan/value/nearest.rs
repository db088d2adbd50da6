//! Suggestions for misspelled names.
//!
//! A misspelled name is the most frequent mistake in a plan. A suggestion costs a scan of all
//! names, so callers limit how many they ask for.

/// The closest of the names, if it is close enough to be a typo.
///
/// For n characters, up to n / 3 edits (rounded up) are close enough; for one or two characters
/// only the case may differ. The first of equally close names is returned.
#[doc(hidden)]
pub fn closest_name<'a>(
    written: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written: Vec<char> = written.chars().collect();
    let limit = if written.len() < 3 { 0 } else { written.len().div_ceil(3) };
    let mut best: Option<(usize, &str)> = None;
    for name in names {
        let worst = best.map_or(limit, |(distance, _)| distance.saturating_sub(1));
        if let Some(distance) = distance_within(&written, name, worst) {
            best = Some((distance, name));
        }
        if matches!(best, Some((0, _))) {
            break;
        }
    }
    best.map(|(_, name)| name)
}

/// The edit distance (insert, delete, replace) up to a limit, ignoring case.
fn distance_within(written: &[char], name: &str, limit: usize) -> Option<usize> {
    // The number of bytes bounds the number of characters, so most names need no table.
    if name.len() > (written.len().saturating_add(limit)).saturating_mul(4) {
        return None;
    }
    let name: Vec<char> = name.chars().collect();
    if name.len().abs_diff(written.len()) > limit {
        return None;
    }
    let mut row: Vec<usize> = (0..=name.len()).collect();
    for (line, from) in written.iter().enumerate() {
        let mut diagonal = line;
        let mut left = line.saturating_add(1);
        let mut next = vec![left];
        for (to, above) in name.iter().zip(row.iter().skip(1)) {
            let replaced = diagonal.saturating_add(usize::from(!from.eq_ignore_ascii_case(to)));
            left = replaced.min(above.saturating_add(1)).min(left.saturating_add(1));
            diagonal = *above;
            next.push(left);
        }
        if next.iter().all(|distance| *distance > limit) {
            return None;
        }
        row = next;
    }
    row.last().copied().filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::closest_name;

    #[test]
    fn only_typos_are_suggested() {
        let names = ["build", "test", "deploy_canary", "3.1"];
        assert_eq!(closest_name("biuld", names), Some("build"));
        assert_eq!(closest_name("Test", names), Some("test"));
        assert_eq!(closest_name("deploy_canry", names), Some("deploy_canary"));
        assert_eq!(closest_name("publish", names), None);
        assert_eq!(closest_name("3.10", names), Some("3.1"));
        assert_eq!(closest_name("", names), None);
        assert_eq!((closest_name("b", ["a", "B"]), closest_name("b", ["a"])), (Some("B"), None));
        assert_eq!(closest_name("x", std::iter::empty()), None);
    }

    #[test]
    fn distance_is_bounded_by_the_limit() {
        let chars: Vec<char> = "kitten".chars().collect();
        assert_eq!(super::distance_within(&chars, "sitting", 3), Some(3));
        assert_eq!(super::distance_within(&chars, "sitting", 2), None);
    }
}
