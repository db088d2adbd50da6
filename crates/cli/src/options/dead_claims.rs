//! Dead claims: a worker releases the claims of dead processes before it waits for them.

use std::path::Path;

use crate::output::{Code, print_message, print_note};
use crate::protocol::ReceiptFile;
use crate::requests::{ReceiptRequest, ReleaseRequest, Request, Work};
use crate::runner::DeadClaim;
use crate::server::Client;

/// Records the results of dead claims, and releases the others. Returns whether there were any.
pub(crate) fn release_dead_claims(ledger: &Path, client: &mut Client) -> bool {
    let mut is_any = false;
    for dead in DeadClaim::all(ledger) {
        let (token, seq) = (dead.token, dead.token.seq);
        let left = match dead.end(ledger) {
            Ok(left) => left,
            Err(error) => {
                print_message(&format!("attempt {seq} is not released: {error}"));
                continue;
            }
        };
        let reason = dead.reason(&left);
        let request: Request = match left.receipt {
            Some(receipt) => ReceiptRequest {
                token,
                duration_micros: receipt.duration,
                log_tail: receipt.log_tail.to_string(),
                receipt: ReceiptFile::of(&receipt),
                next: None,
            }
            .into(),
            None => ReleaseRequest { token, work: Work::Begun, reason: reason.clone() }.into(),
        };
        let code = match client.call(&request) {
            Ok(answer) => Code::of(answer.code),
            Err(failure) => failure.code(),
        };
        match code {
            // The attempt was over already.
            Code::Rejected => {}
            Code::Success | Code::Failed | Code::Waiting => {
                print_note(&format!("attempt {seq} is released: {reason}"));
                is_any = true;
            }
            // The ledger is locked or the disk is full: the next worker tries again.
            _ => continue,
        }
        dead.forget();
    }
    is_any
}
