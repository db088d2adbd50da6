//! The prompts that a host offers to its user.

use crate::requests::Role;

pub(super) struct LedgerPrompt {
    pub(super) name: &'static str,
    pub(super) role: Role,
    pub(super) description: &'static str,
    pub(super) text: &'static str,
}

pub(super) static PROMPTS: [LedgerPrompt; 3] = [
    LedgerPrompt {
        name: "work",
        role: Role::Worker,
        description: "Take the next step of the plan, and do it",
        text: "Call ledger_status, then ledger_claim. Do exactly what the step says, and check its \
               acceptance criteria yourself. Call ledger_heartbeat during long work. Then call \
               ledger_report, and say what the ledger answered. If you cannot finish, call \
               ledger_release with the reason.",
    },
    LedgerPrompt {
        name: "resume",
        role: Role::Viewer,
        description: "What was I doing?",
        text: "Call ledger_status. Say in three sentences where the plan is, what you have claimed, and \
               what waits for me. If a claim of yours is open, show the step with ledger_show and \
               continue it.",
    },
    LedgerPrompt {
        name: "review",
        role: Role::Operator,
        description: "Show me what waits for my decision",
        text: "Call ledger_status and ledger_show with what `questions`. Show me each item that waits for \
               a person, with its options and your recommendation, and wait for my decision. Record it \
               with ledger_answer, in my name, and only after I have decided.",
    },
];
