//! The names that tools use for each field of a task, the most specific first. One spelling covers all: `dependsOn` is
//! also `depends_on` and `Depends on`.

pub(super) const IDS: &[&str] = &[
    "id",
    "taskId",
    "key",
    "issueKey",
    "number",
    "stepNumber",
    "Nr",
    "Nummer",
    "num\u{e9}ro",
    "n\u{fa}mero",
    "\u{30bf}\u{30b9}\u{30af}ID",
];
pub(super) const TITLES: &[&str] = &[
    "title",
    "name",
    "summary",
    "subject",
    "content",
    "task",
    "story",
    "step",
    "text",
    // Columns of tables in German, French, Spanish, Portuguese and Italian.
    "Titel",
    "Aufgabe",
    "Bezeichnung",
    "titre",
    "t\u{e2}che",
    "intitul\u{e9}",
    "t\u{ed}tulo",
    "tarea",
    "tarefa",
    "titolo",
    "attivit\u{e0}",
    "compito",
    // Japanese, Chinese.
    "\u{30bf}\u{30b9}\u{30af}\u{540d}",
    "\u{30bf}\u{30b9}\u{30af}",
    "\u{4efb}\u{52a1}",
];
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
    "Beschreibung",
    "descripci\u{f3}n",
    "descri\u{e7}\u{e3}o",
    "descrizione",
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
    "depends",
    "deps",
    "blockedBy",
    "isBlockedBy",
    "inwardIssueLinkBlocks",
    "waitsFor",
    "after",
    "requires",
    "prerequisites",
    "needs",
    "abh\u{e4}ngig von",
    "d\u{e9}pend de",
    "depende de",
    "dipende da",
    "\u{4f9d}\u{5b58}\u{95a2}\u{4fc2}",
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
pub(super) const OWNERS: &[&str] = &[
    "owner",
    "assignee",
    "assignees",
    "agent",
    "role",
    "verantwortlich",
    "zust\u{e4}ndig",
    "responsable",
    "respons\u{e1}vel",
    "responsabile",
];
pub(super) const TAGS: &[&str] = &["tags", "labels"];
pub(super) const PHASES: &[&str] = &["phase", "milestone", "sprint", "wave"];
pub(super) const STATUSES: &[&str] = &[
    "status",
    "state",
    "Stand",
    "statut",
    "\u{e9}tat",
    "estado",
    "situa\u{e7}\u{e3}o",
    "stato",
    "\u{72b6}\u{614b}",
    "\u{72b6}\u{6001}",
];
pub(super) const FLAGS: &[&str] =
    &["passes", "done", "completed", "complete", "finished", "checked", "erledigt", "fertig"];
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
