//! Plans in Markdown of other tools: the `tasks.md` of spec-kit and OpenSpec, plans with steps,
//! tools, changes and acceptance, and numbered or checkbox tasks under headings in any language.
//!
//! The text is parsed into one outline, from which the reader chooses the parts that are tasks and turns them into
//! steps. `format/plan-files.md` has the complete mapping.
//! - Tasks are, in this order of precedence: checkboxes; headings `Step 1`; numbered items below a title such as
//!   `Steps`; headings of phases; headings with numbers; other items.
//! - If tasks have ids, a checkbox without one is a criterion of the task around it, or a note.
//! - The headings that separate the tasks are phases. Sections with known titles are fields of the
//!   plan, and all other text is its context, so that no text is lost.
//! - Tasks without dependencies follow the order of the text.

mod concurrency;
mod front_matter;
mod labels;
mod list_markers;
mod outline;
mod plan;
mod refused_labels;
mod remaining_text;
mod spelling;
mod surrounding;
mod tables;
mod task_ids;
mod tasks;
mod titles;

pub(super) use labels::status_place;
pub(super) use outline::{Outline, box_places};
pub(super) use plan::{MarkdownReading, parse, readings};
pub(super) use surrounding::report_unread;
pub(super) use tasks::Marks;
