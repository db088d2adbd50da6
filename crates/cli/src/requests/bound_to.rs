//! The process that a claim is bound to: the claim ends with this process or with its lease.
//!
//! The claim is bound in the commit that dispatches the step, so a process that is killed at any point leaves no claim
//! without an owner. It is bound to the process that the server sees; a client can only name another process, or none.
//! The folder of the work is always that of the process that the server sees: a judge checks there.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::WorkerProcess;

use crate::protocol::{Failure, MACHINE_LENGTH_MAX, Peer, named_process};

/// The process that the attempt is bound to: the attempt ends with this process or with its lease.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum BoundTo {
    /// The process that makes the request, as the server sees it at the socket.
    #[default]
    Peer,
    /// None: the lease alone decides. For a process that claims for another one.
    Lease,
    /// Another process on this machine.
    Process(WorkerProcess),
}

impl BoundTo {
    pub(super) fn is_peer(&self) -> bool {
        *self == Self::Peer
    }

    /// The process to record with the dispatch.
    pub(super) fn process(&self, peer: &Peer) -> Result<Option<WorkerProcess>, Failure> {
        match (self, peer) {
            (Self::Process(process), _) if process.machine.len() > MACHINE_LENGTH_MAX => {
                let found = process.machine.len();
                Err(Failure::Usage(format!(
                    "bound_to: machine: expected at most {MACHINE_LENGTH_MAX} bytes, found {found}"
                )))
            }
            (Self::Process(process), _) => Ok(Some(with_true_folder(process))),
            (Self::Peer, Peer::Here(process)) => {
                plan_ledger::mutant!(ClaimBoundToServer => {
                    return Ok(named_process(std::process::id()));
                });
                Ok(Some(process.clone()))
            }
            (Self::Peer, Peer::Gone(process)) => {
                Err(Failure::Rejected(format!("process {process}, which claims, is gone")))
            }
            // Its folder says where the work is; the number 0 is that of no process.
            (Self::Lease, Peer::Here(process)) => Ok(process.folder.clone().map(|folder| {
                let (pid, start, machine) = (0, 0, String::new());
                WorkerProcess { pid, start, machine, folder: Some(folder) }
            })),
            (Self::Lease, Peer::Gone(_) | Peer::Elsewhere) | (Self::Peer, Peer::Elsewhere) => {
                Ok(None)
            }
        }
    }
}

/// A process that a request names, with the folder that is seen here; with none if it is not seen.
fn with_true_folder(named: &WorkerProcess) -> WorkerProcess {
    let is_named =
        |seen: &WorkerProcess| seen.start == named.start && seen.machine == named.machine;
    let seen = named_process(named.pid).filter(is_named);
    WorkerProcess { folder: seen.and_then(|seen| seen.folder), ..named.clone() }
}
