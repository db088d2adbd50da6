//! The `marks` of a native plan file: which steps are done, dropped, or in another state.
//!
//! Marks are not part of the plan and do not change its hash. They are written when a plan with
//! marks is exported, so that no status is lost.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

use crate::plan_file::{PlanFile, PlanFormat};
use plan_ledger::plan::{Extra, Plan};

/// The name of the field.
pub(crate) const MARKS_FIELD: &str = "marks";

/// The progress of the work on a plan, by the ids of its steps.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Marks {
    /// Steps that are done. The value names the file and the mark.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) done: BTreeMap<String, String>,
    /// Steps that were dropped. The value names the file and the mark.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) skipped: BTreeMap<String, String>,
    /// The status of steps, spelled as in the tool that the plan came from.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) statuses: BTreeMap<String, String>,
    /// Fields of steps that this tool updates during the work.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) progress: BTreeMap<String, Extra>,
}

impl Marks {
    pub(crate) fn of(plan_file: &PlanFile) -> Self {
        Self {
            done: plan_file.done.clone(),
            skipped: plan_file.skipped.clone(),
            statuses: plan_file.statuses.clone(),
            progress: plan_file.progress.clone(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A plan file with these marks.
    pub(super) fn attach(self, plan: Plan, format: PlanFormat) -> PlanFile {
        let Self { done, skipped, statuses, progress } = self;
        PlanFile { done, skipped, statuses, progress, ..PlanFile::new(plan, format) }
    }
}

/// A plan with the marks of its file.
pub(super) struct MarkedPlan {
    plan: Plan,
    marks: Marks,
}

impl MarkedPlan {
    pub(super) fn into_plan_file(self, format: PlanFormat) -> PlanFile {
        self.marks.attach(self.plan, format)
    }
}

impl<'de> Deserialize<'de> for MarkedPlan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MarkedPlanVisitor)
    }
}

struct MarkedPlanVisitor;

impl<'de> Visitor<'de> for MarkedPlanVisitor {
    type Value = MarkedPlan;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("struct Plan")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MarkedPlan, A::Error> {
        let mut marks = None;
        let fields = PlanFields { map, marks: &mut marks };
        let plan = Plan::deserialize(MapAccessDeserializer::new(fields))?;
        Ok(MarkedPlan { plan, marks: marks.unwrap_or_default() })
    }
}

/// The fields of the plan. The marks are read on the way and left out.
struct PlanFields<'a, A> {
    map: A,
    marks: &'a mut Option<Marks>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for PlanFields<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        let mut seed = seed;
        loop {
            match self.map.next_key_seed(PlanKey(seed))? {
                None => return Ok(None),
                Some(Ok(name)) => return Ok(Some(name)),
                Some(Err(unused)) => seed = unused,
            }
            if self.marks.is_some() {
                return Err(A::Error::duplicate_field(MARKS_FIELD));
            }
            *self.marks = Some(self.map.next_value()?);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// Reads the name of a field: `Ok` with the name, or `Err` with the unused seed for the marks. The
/// name is read in place, so that an error about it has a line.
struct PlanKey<K>(K);

impl<'de, K: DeserializeSeed<'de>> DeserializeSeed<'de> for PlanKey<K> {
    type Value = Result<K::Value, K>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl<'de, K: DeserializeSeed<'de>> Visitor<'de> for PlanKey<K> {
    type Value = Result<K::Value, K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Self::Value, E> {
        if name == MARKS_FIELD {
            Ok(Err(self.0))
        } else {
            self.0.deserialize(name.into_deserializer()).map(Ok)
        }
    }
}
