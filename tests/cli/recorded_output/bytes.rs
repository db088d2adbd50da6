//! The hash of the state after each record, and the SHA-256 of each file, of ledgers made from fixed
//! seeds.

use std::fmt::Write as _;

use plan_ledger::internals::sim::SimDisk;
use plan_ledger::{LedgerView, state_hash};
use sha2::{Digest as _, Sha256};

use super::{ledgers, session};
use crate::lab::dir;

/// Seeds of random histories, beside the fixed ledgers.
const SEEDS: [u64; 3] = [1, 2, 3];

pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

/// All files with their sizes and SHA-256, and all records with the hash of the state after them.
fn digests(disk: &SimDisk) -> String {
    let mut text = "# SHA-256, size, file\n".to_owned();
    for (path, bytes) in ledgers::files_on(disk) {
        writeln!(text, "{} {:>7} {}", sha256(&bytes), bytes.len(), path.display()).unwrap();
    }
    text += "\n# record, hash of the state after it\n";
    let view = LedgerView::open(&dir(), &ledgers::environment(disk)).unwrap();
    let last = view.log().head().unwrap().durable_seq;
    for seq in 1..=last {
        let hash = view.state_at(seq).map(|state| state_hash(&state));
        let hash = hash.map_or("not available".to_owned(), |hash| hash.to_string());
        writeln!(text, "{seq:>4} {hash}").unwrap();
    }
    text
}

/// Goal: the same calls write the same bytes, and give the same state at each record.
#[test]
fn fixed_ledgers_keep_their_bytes_and_states() {
    for name in ledgers::NAMES {
        session::assert_recorded(&format!("bytes-{name}"), &digests(&ledgers::disk(name)));
    }
}

/// Goal: the same for random histories.
#[test]
fn random_histories_keep_their_bytes_and_states() {
    for seed in SEEDS {
        let text = digests(&ledgers::history(seed));
        session::assert_recorded(&format!("bytes-seed-{seed}"), &text);
    }
}
