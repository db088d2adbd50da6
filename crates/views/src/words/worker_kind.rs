//! The workers that a runner hosts, and the names that are reserved for them.

/// The types of workers that the loop can drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerKind {
    /// One process for each attempt.
    Process,
    /// Constant replies that the runner itself generates.
    Stub,
}

impl WorkerKind {
    /// Whether this or an earlier runner hosted a worker of that name.
    #[must_use]
    pub fn hosted(worker: &str) -> bool {
        [Self::Process, Self::Stub].iter().any(|kind| kind.has_hosted(worker))
    }

    /// Whether this or an earlier runner hosted a worker with this name and type.
    #[must_use]
    pub fn has_hosted(self, worker: &str) -> bool {
        worker.strip_prefix(self.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The name under which command criteria are judged; never the name of a worker.
    #[must_use]
    pub fn judge(self) -> &'static str {
        match self {
            Self::Process => "runner",
            Self::Stub => "stub",
        }
    }

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Stub => "stub",
        }
    }
}
