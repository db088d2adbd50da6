//! A value that is seldom other than its default, and takes next to no room while it is not.
//!
//! Invariants: it is on the heap exactly as long as it is other than its default, so that two equal
//! ones are kept alike; and it is written, read and shown as the value itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value, or nothing in the place of its default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Seldom<T>(Option<Box<T>>);

/// A type whose default there is one of, for whoever looks at it.
pub trait Blank: Default + PartialEq + 'static {
    /// The default.
    const BLANK: &'static Self;
}

impl<T: Ord + 'static> Blank for BTreeSet<T> {
    const BLANK: &'static Self = &Self::new();
}

impl<T: PartialEq + 'static> Blank for Vec<T> {
    const BLANK: &'static Self = &Self::new();
}

impl<K: Ord + 'static, V: PartialEq + 'static> Blank for BTreeMap<K, V> {
    const BLANK: &'static Self = &Self::new();
}

impl<T> Seldom<T> {
    /// The default.
    pub(crate) const NONE: Self = Self(None);
}

impl<T: Blank> Seldom<T> {
    /// Changes the value.
    pub(crate) fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        if let Some(value) = &mut self.0 {
            let result = change(value);
            if **value == *T::BLANK {
                self.0 = None;
            }
            result
        } else {
            let mut value = T::default();
            let result = change(&mut value);
            *self = value.into();
            result
        }
    }
}

impl<T: Blank> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self((value != *T::BLANK).then(|| Box::new(value)))
    }
}

impl<T: Blank + fmt::Debug> fmt::Debug for Seldom<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Blank> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::BLANK)
    }
}

#[expect(clippy::into_iter_without_iter, reason = "the value itself has the method")]
impl<'a, T: Blank> IntoIterator for &'a Seldom<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: Blank + Serialize> Serialize for Seldom<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: Blank + Deserialize<'de>> Deserialize<'de> for Seldom<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// The schema of the value itself.
#[cfg(feature = "plan-files")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Seldom<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Hold;

    /// However it came to what it is: two that are equal compare so, which deriving does not give
    /// to a default that was allocated.
    #[test]
    fn equal_ones_are_kept_alike() {
        let mut hold = Seldom::<Hold>::default();
        hold.change(|hold| hold.is_gate_open = true);
        assert_eq!(hold, Hold { is_gate_open: true, ..Hold::default() }.into());
        assert!(hold.0.is_some());
        hold.change(|hold| hold.is_gate_open = false);
        assert_eq!(hold, Seldom::default());
        assert!(hold.0.is_none());
        assert!(Seldom::from(Hold::default()).0.is_none());
        assert_eq!(*Hold::BLANK, Hold::default());
    }
}
