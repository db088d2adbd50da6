//! A value that is seldom other than its default, and takes next to no room while it is not.
//!
//! Invariants: it is on the heap exactly as long as it is other than its default, so that two equal
//! ones are kept alike; and it is written and read as the value itself.

use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value, or nothing in the place of its default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seldom<T>(Option<Box<T>>);

/// A type whose default there is one of, for whoever looks at it.
pub trait Blank: Default + PartialEq + 'static {
    /// The default.
    const BLANK: &'static Self;
}

impl<T: Blank> Seldom<T> {
    /// Changes the value.
    pub(in crate::plan) fn change(&mut self, change: impl FnOnce(&mut T)) {
        if let Some(value) = &mut self.0 {
            change(value);
            if **value == *T::BLANK {
                self.0 = None;
            }
        } else {
            let mut value = T::default();
            change(&mut value);
            *self = value.into();
        }
    }
}

impl<T: Blank> From<T> for Seldom<T> {
    fn from(value: T) -> Self {
        Self((value != *T::BLANK).then(|| Box::new(value)))
    }
}

impl<T: Blank> Deref for Seldom<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::BLANK)
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
