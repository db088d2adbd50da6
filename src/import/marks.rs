//! What a file of our own form says beyond its plan: how far the work is, in `marks`.
//!
//! Invariant: marks are no part of the plan, and its hash does not depend on them. They are
//! written where a plan that came with marks is exported, so that none is lost.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::{Imported, PlanFormat};
use crate::plan::{Extra, Plan};

/// The name of the field.
pub(super) const FIELD: &str = "marks";

/// How far the work on a plan is, by the ids of its steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Marks {
    /// Steps that are done, each with where that was said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) done: BTreeMap<String, String>,
    /// Steps that are not to be done any more, each with where that was said.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) skipped: BTreeMap<String, String>,
    /// The status of steps, in the words of the tool that the plan came from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) statuses: BTreeMap<String, String>,
    /// Fields of steps that this tool changes while work is done.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) progress: BTreeMap<String, Extra>,
}

impl Marks {
    /// The marks of a plan that was read.
    pub(super) fn of(imported: &Imported) -> Self {
        Self {
            done: imported.done.clone(),
            skipped: imported.skipped.clone(),
            statuses: imported.statuses.clone(),
            progress: imported.progress.clone(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A plan with these marks.
    pub(super) fn onto(self, plan: Plan, format: PlanFormat) -> Imported {
        let Self { done, skipped, statuses, progress } = self;
        Imported { done, skipped, statuses, progress, ..Imported::unmarked(plan, format) }
    }
}

/// A file of our own form: a plan, and marks beside its fields.
pub(super) struct PlanFile {
    plan: Plan,
    marks: Marks,
}

impl PlanFile {
    pub(super) fn imported(self, format: PlanFormat) -> Imported {
        self.marks.onto(self.plan, format)
    }
}

impl<'de> Deserialize<'de> for PlanFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FileVisitor)
    }
}

struct FileVisitor;

impl<'de> Visitor<'de> for FileVisitor {
    type Value = PlanFile;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct Plan")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<PlanFile, A::Error> {
        let mut marks = None;
        let fields = Fields { map, marks: &mut marks };
        let plan = Plan::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(PlanFile { plan, marks: marks.unwrap_or_default() })
    }
}

/// The fields of a file without the marks, which are taken as they come by.
struct Fields<'a, A> {
    map: A,
    marks: &'a mut Option<Marks>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = seed;
        loop {
            match self.map.next_key_seed(Key(seed))? {
                None => return Ok(None),
                Some(Ok(name)) => return Ok(Some(name)),
                Some(Err(again)) => seed = again,
            }
            if self.marks.is_some() {
                return Err(A::Error::duplicate_field(FIELD));
            }
            *self.marks = Some(self.map.next_value()?);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The name of a field, or, where it is that of the marks, what would have read it. It is read
/// where it stands, so that what is said of it has a place.
struct Key<K>(K);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for Key<K> {
    type Value = Result<K::Value, K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for Key<K> {
    type Value = Result<K::Value, K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        if name == FIELD {
            Ok(Err(self.0))
        } else {
            self.0.deserialize(name.into_deserializer()).map(Ok)
        }
    }
}
