//! A field that usually has its default value and then takes only the space of a pointer.
//!
//! Invariants: the value is on the heap if and only if it differs from its default, so equal fields
//! have equal representations. It is serialized and displayed as the value itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is boxed only while it differs from its default.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RareField<T>(Option<Box<T>>);

/// A type with a default value in static memory.
pub trait StaticDefault: Default + PartialEq + 'static {
    /// The default.
    const STATIC_DEFAULT: &'static Self;
}

impl<T: Ord + 'static> StaticDefault for BTreeSet<T> {
    const STATIC_DEFAULT: &'static Self = &Self::new();
}

impl<T: PartialEq + 'static> StaticDefault for Vec<T> {
    const STATIC_DEFAULT: &'static Self = &Self::new();
}

impl<K: Ord + 'static, V: PartialEq + 'static> StaticDefault for BTreeMap<K, V> {
    const STATIC_DEFAULT: &'static Self = &Self::new();
}

impl<T> RareField<T> {
    /// The default.
    pub(crate) const NONE: Self = Self(None);

    /// Whether the field has its default value.
    pub(crate) fn is_default(&self) -> bool {
        self.0.is_none()
    }
}

impl<T: StaticDefault> RareField<T> {
    /// Changes the value.
    pub fn change<R>(&mut self, change: impl FnOnce(&mut T) -> R) -> R {
        if let Some(value) = &mut self.0 {
            let result = change(value);
            if **value == *T::STATIC_DEFAULT {
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

impl<T: StaticDefault> From<T> for RareField<T> {
    fn from(value: T) -> Self {
        Self((value != *T::STATIC_DEFAULT).then(|| Box::new(value)))
    }
}

impl<T: StaticDefault + fmt::Debug> fmt::Debug for RareField<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: StaticDefault> Deref for RareField<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::STATIC_DEFAULT)
    }
}

#[expect(clippy::into_iter_without_iter, reason = "the value itself has the method")]
impl<'a, T: StaticDefault> IntoIterator for &'a RareField<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: StaticDefault + Serialize> Serialize for RareField<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, T: StaticDefault + Deserialize<'de>> Deserialize<'de> for RareField<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}

/// The schema of the value.
#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for RareField<T> {
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

    /// A field that was changed back to its default equals one that never changed.
    #[test]
    fn default_values_are_never_allocated() {
        let mut hold = RareField::<Hold>::default();
        hold.change(|hold| hold.is_gate_open = true);
        assert_eq!(hold, Hold { is_gate_open: true, ..Hold::default() }.into());
        assert!(hold.0.is_some());
        hold.change(|hold| hold.is_gate_open = false);
        assert_eq!(hold, RareField::default());
        assert!(hold.0.is_none());
        assert!(RareField::from(Hold::default()).0.is_none());
        assert_eq!(*Hold::STATIC_DEFAULT, Hold::default());
    }
}
