//! Suggestions for misspelled names.
//!
//! A misspelled name is the most frequent mistake in a plan. A suggestion costs a scan of all names, so
//! callers limit how many they ask for.

/// The closest of the names, if it is close enough to be a typo.
///
/// Close enough is one edit for each three characters or part of them; for one or two characters only
/// the case may differ. The first of equally close names wins.
#[doc(hidden)]
pub fn nearest<'a>(written: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
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
    use super::nearest;

    #[test]
    fn only_typos_are_suggested() {
        let names = ["build", "test", "deploy_canary", "3.1"];
        assert_eq!(nearest("biuld", names), Some("build"));
        assert_eq!(nearest("Test", names), Some("test"));
        assert_eq!(nearest("deploy_canry", names), Some("deploy_canary"));
        assert_eq!(nearest("publish", names), None);
        assert_eq!(nearest("3.10", names), Some("3.1"));
        assert_eq!(nearest("", names), None);
        assert_eq!((nearest("b", ["a", "B"]), nearest("b", ["a"])), (Some("B"), None));
        assert_eq!(nearest("x", std::iter::empty()), None);
    }

    #[test]
    fn distance_is_bounded_by_the_limit() {
        let chars: Vec<char> = "kitten".chars().collect();
        assert_eq!(super::distance_within(&chars, "sitting", 3), Some(3));
        assert_eq!(super::distance_within(&chars, "sitting", 2), None);
    }
}
