//! The process that a claim is bound to: the claim ends with this process or with its lease.
//!
//! The claim is bound in the commit that dispatches the step, so a process that is killed at any point leaves no claim
//! without an owner. It is bound to the process that the server sees; a client can only name another process, or none.
//! The folder of the work is always that of the process that the server sees: a judge checks there.

use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, FromArgMatches, value_parser};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use plan_ledger::plan::WorkerProcess;

use crate::protocol::{Failure, MACHINE_LENGTH_MAX, Peer, named_process, this_machine};

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

/// On the command line, `--pid`: the named process, else the lease alone. It is never the process of the
/// command, which ends at once.
impl FromArgMatches for BoundTo {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        if plan_ledger::mutant!(ClaimBoundToCommand) {
            return Ok(Self::Peer);
        }
        let Some(pid) = matches.get_one::<u32>(PID).copied() else { return Ok(Self::Lease) };
        let invalid = |message: String| clap::Error::raw(ErrorKind::ValueValidation, message);
        if this_machine().is_none() {
            let message = "no processes are shown here, so the end of --pid would not be noticed\nhint: leave it \
                           out; the step is free again when its lease expires";
            return Err(invalid(message.to_owned()));
        }
        let gone = || invalid(format!("--pid {pid}: there is no such process"));
        named_process(pid).map(Self::Process).ok_or_else(gone)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for BoundTo {
    fn augment_args(command: clap::Command) -> clap::Command {
        let pid = Arg::new(PID).long(PID).value_name("PID").value_parser(value_parser!(u32));
        command.arg(pid.help(
            "The process that does the step (`$$` in a shell): when it is gone, another worker gets the step",
        ))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

/// The option that names a process.
const PID: &str = "pid";

/// A process that a request names, with the folder that is seen here; with none if it is not seen.
fn with_true_folder(named: &WorkerProcess) -> WorkerProcess {
    let is_named =
        |seen: &WorkerProcess| seen.start == named.start && seen.machine == named.machine;
    let seen = named_process(named.pid).filter(is_named);
    WorkerProcess { folder: seen.and_then(|seen| seen.folder), ..named.clone() }
}
