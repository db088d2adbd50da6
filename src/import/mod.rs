//! Placeholder until the importers are merged.
#![expect(clippy::todo, missing_docs, unused_variables, clippy::missing_panics_doc, reason = "placeholder")]
use crate::error::Result;
use crate::plan::Plan;
use std::collections::BTreeMap;
use std::path::Path;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format { Plan, TaskMaster }
#[derive(Debug, Clone)]
pub struct Imported { pub plan: Plan, pub done: BTreeMap<String, String>, pub format: Format }
pub fn read(path: &Path) -> Result<Imported> { todo!() }
