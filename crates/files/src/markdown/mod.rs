//! Plans in Markdown of other tools: the `tasks.md` of spec-kit and OpenSpec, plans with steps,
//! tools, changes and acceptance, and numbered or checkbox tasks under headings in any language.
//!
//! The reader parses the structure of the text, chooses which parts are tasks, and turns them into
//! steps. `format/plan-files.md` has the complete mapping.
//! - Tasks are, in this order of precedence: checkboxes with ids of spec-kit; checkboxes; headings
//!   `Step 1`; numbered items; items under a heading such as `Tasks`.
//! - If tasks have ids, a checkbox without one is a criterion of the task around it, or a note.
//! - The headings that separate the tasks are phases. Sections with known titles are fields of the
//!   plan, and all other text is its context, so that no text is lost.
//! - Tasks without dependencies follow the order of the text.

mod concurrency;
mod labels;
mod list_markers;
mod outline;
mod plan;
mod recognize;
mod refused_labels;
mod remaining_text;
mod spelling;
mod surrounding;
mod task_ids;
mod tasks;

pub(super) use outline::{Outline, Table};
pub(super) use plan::parse;
pub(super) use recognize::is_markdown;
pub(super) use surrounding::report_unread;
