//! The names that tools use for each field of a task, the most specific first. One spelling covers all: `dependsOn` is
//! also `depends_on` and `Depends on`.

pub(super) const IDS: &[&str] = &["id", "taskId", "key", "issueKey", "number", "stepNumber"];
pub(super) const TITLES: &[&str] =
    &["title", "name", "summary", "subject", "content", "task", "story", "step", "text"];
pub(super) const GOALS: &[&str] = &[
    "description",
    "details",
    "design",
    "instructions",
    "implementationGuide",
    "implementationPlan",
    "action",
    "prompt",
    "body",
    "objective",
    "goal",
];
pub(super) const CRITERIA: &[&str] = &[
    "acceptanceCriteria",
    "acceptance",
    "criteria",
    "successCriteria",
    "verificationCriteria",
    "testCriteria",
    "validation",
    "validations",
    "verification",
    "verify",
    "testStrategy",
    "definitionOfDone",
    "doneWhen",
    "checks",
    "check",
    "expectedOutput",
    "expectedOutcome",
    "expectedResult",
];
/// Those of the criteria that tools write for a program: an item may be a bare command.
pub(super) const COMMAND_LISTS: &[&str] =
    &["testCriteria", "validation", "validations", "verification", "verify"];
pub(super) const DEPENDENCIES: &[&str] = &[
    "dependsOn",
    "dependencies",
    "deps",
    "blockedBy",
    "isBlockedBy",
    "inwardIssueLinkBlocks",
    "waitsFor",
    "after",
    "requires",
    "prerequisites",
    "needs",
];
/// Fields with the tasks that wait for this one.
pub(super) const BLOCKED: &[&str] = &["blocks", "isBlocking", "outwardIssueLinkBlocks", "unblocks"];
/// Fields with the task around this one.
pub(super) const PARENTS: &[&str] = &["parent", "parentId", "parentTaskId", "parentIssue"];
/// Fields with the ids of the tasks inside this one.
pub(super) const CHILDREN: &[&str] = &["children", "subtaskIds", "childIds"];
/// Files that the step makes; they are also among those that it may change.
pub(super) const NEW_FILES: &[&str] = &["filesToCreate"];
pub(super) const CHANGES: &[&str] = &[
    "filesToModify",
    "filesToChange",
    "filesModified",
    "relatedFiles",
    "files",
    "changes",
    "changedFiles",
    "paths",
];
/// Those of the files that must exist.
pub(super) const MODIFIED: &[&str] = &["filesToModify", "filesToChange"];
/// Those of the files that do not exist yet.
pub(super) const CREATED: &[&str] = &["filesToCreate"];
pub(super) const OWNERS: &[&str] = &["owner", "assignee", "assignees", "agent", "role"];
pub(super) const TAGS: &[&str] = &["tags", "labels"];
pub(super) const PHASES: &[&str] = &["phase", "milestone", "sprint", "wave"];
pub(super) const STATUSES: &[&str] = &["status", "state"];
pub(super) const FLAGS: &[&str] =
    &["passes", "done", "completed", "complete", "finished", "checked"];
/// Names for the target of a dependency that is an object.
pub(super) const TARGETS: &[&str] = &[
    "dependsOnId",
    "dependsOn",
    "targetId",
    "target",
    "taskId",
    "task",
    "id",
    "key",
    "ref",
    "name",
    "title",
];
/// Names for the type of a dependency.
pub(super) const EDGE_TYPES: &[&str] = &["type", "depType", "dependencyType", "kind", "relation"];
/// Fields that tools update during the work.
pub(super) const PROGRESS: &[&str] = &[
    "completionNotes",
    "completedAt",
    "startedAt",
    "updatedAt",
    "updated",
    "updatedDate",
    "lastModified",
    "attempts",
    "activeForm",
];
