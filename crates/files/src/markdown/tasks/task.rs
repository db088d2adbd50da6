//! A task of a Markdown text, and all tasks that were selected.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::markdown::labels::{Label, LabelledText};
use crate::markdown::list_markers::Checkbox;
use crate::markdown::task_ids::IdStyle;
use crate::read_report::Reading;

/// The tasks of a text.
pub(in crate::markdown) struct TaskSelection {
    pub(in crate::markdown) tasks: Vec<Task>,
    pub(in crate::markdown) id_style: IdStyle,
    /// Checkboxes that are not tasks, by section: the line of the first one, and their number.
    pub(in crate::markdown) other_checkboxes: BTreeMap<usize, (u64, usize)>,
    /// The titles of phases that are items of a list.
    pub(in crate::markdown) item_phases: Vec<String>,
    pub(in crate::markdown) marks: Marks,
    pub(in crate::markdown) reading: Reading,
}

/// What shows that parts of a text are tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Boxes, or what is beside them.
    Boxes,
    /// Headings that say that they are steps.
    Steps,
    /// Headings of phases, or with numbers.
    Sections,
    /// Items without boxes.
    Items,
}

/// A task of the text.
pub(in crate::markdown) struct Task {
    /// The written id; tasks without one get it later.
    pub(in crate::markdown) id: Option<String>,
    /// The id in the text, once `id` is final.
    pub(in crate::markdown) written: Option<String>,
    pub(in crate::markdown) line: u64,
    pub(in crate::markdown) checkbox: Option<Checkbox>,
    pub(in crate::markdown) is_optional: bool,
    /// The text without id and tags.
    pub(in crate::markdown) text: String,
    pub(in crate::markdown) tags: Vec<String>,
    /// The index of the section around it.
    pub(in crate::markdown) section: usize,
    pub(in crate::markdown) range: Range<usize>,
    pub(in crate::markdown) labelled: LabelledText,
    /// The checkboxes inside that are not tasks.
    pub(in crate::markdown) criteria: Vec<(Checkbox, String)>,
    pub(in crate::markdown) subtasks: Vec<Task>,
    /// The index of its phase, if the phases are items of a list.
    pub(in crate::markdown) item_phase: Option<usize>,
}

impl Task {
    /// Whether the task is ticked, or has no box of its own, and parts or criteria that all are.
    pub(in crate::markdown) fn is_done(&self) -> bool {
        match self.checkbox {
            Some(Checkbox::Open) if plan_ledger::mutant!(PartsOutvoteOpenBox) => {
                self.has_ticked_parts()
            }
            Some(checkbox) => checkbox == Checkbox::Done,
            None => self.has_ticked_parts(),
        }
    }

    /// Whether the task has parts or criteria, and all are ticked.
    fn has_ticked_parts(&self) -> bool {
        let labelled = self.labelled.values(Label::Acceptance).iter().map(|it| it.checkbox);
        let criteria = self.criteria.iter().map(|(checkbox, _)| Some(*checkbox));
        let boxes: Vec<Checkbox> = criteria.chain(labelled).flatten().collect();
        let is_any = !boxes.is_empty() || !self.subtasks.is_empty();
        is_any
            && boxes.iter().all(|checkbox| *checkbox == Checkbox::Done)
            && self.subtasks.iter().all(Self::is_done)
    }
}
