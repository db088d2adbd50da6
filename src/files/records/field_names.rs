//! The names that tools use for each field of a task, the most specific first.

pub(super) const IDS: &[&str] =
    &["id", "taskId", "task_id", "key", "number", "step_number", "stepNumber"];
pub(super) const TITLES: &[&str] =
    &["title", "name", "summary", "subject", "content", "task", "story", "step", "text"];
pub(super) const GOALS: &[&str] =
    &["description", "goal", "details", "instructions", "action", "prompt", "body", "objective"];
pub(super) const CRITERIA: &[&str] = &[
    "acceptanceCriteria",
    "acceptance_criteria",
    "acceptance",
    "criteria",
    "successCriteria",
    "success_criteria",
    "testCriteria",
    "test_criteria",
    "validation",
    "validations",
    "verification",
    "testStrategy",
    "test_strategy",
    "definition_of_done",
    "definitionOfDone",
    "done_when",
    "doneWhen",
];
pub(super) const DEPENDENCIES: &[&str] = &[
    "dependsOn",
    "depends_on",
    "dependencies",
    "deps",
    "blockedBy",
    "blocked_by",
    "after",
    "requires",
    "prerequisites",
    "needs",
];
pub(super) const CHANGES: &[&str] = &[
    "files_to_modify",
    "filesToModify",
    "files_to_change",
    "files_to_create",
    "filesToCreate",
    "files",
    "changes",
    "paths",
];
pub(super) const STATUSES: &[&str] = &["status", "state"];
pub(super) const FLAGS: &[&str] =
    &["passes", "done", "completed", "complete", "finished", "checked"];
pub(super) const PROGRESS: &[&str] = &[
    "completionNotes",
    "completion_notes",
    "completedAt",
    "completed_at",
    "startedAt",
    "started_at",
    "updatedAt",
    "updated_at",
    "lastModified",
    "attempts",
];
