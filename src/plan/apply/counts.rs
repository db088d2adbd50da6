//! Counters by key. An entry that reaches 0 is removed, so that equal states have equal maps.

use std::collections::BTreeMap;

pub(crate) fn count_up<K: Ord + Clone>(counts: &mut BTreeMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) => *count = count.saturating_add(1),
        None => drop(counts.insert(key.clone(), 1)),
    }
}

pub(crate) fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    match counts.get_mut(key) {
        Some(count) if *count > 1 => *count -= 1,
        _ => drop(counts.remove(key)),
    }
}
