//! Recorded output: what the program prints and writes, committed as snapshot files.
//!
//! The commands run over ledgers whose bytes are fixed (`ledgers`). Each group of commands is one
//! transcript (`session`), in which everything that depends on the machine or on the moment is
//! replaced, and is compared with a file in `tests/snapshots`. `bytes` records the hash of the
//! state after each record and of each file; `cases` and `seeded_bugs` record results.
//!
//! To record again: `INSTA_UPDATE=always cargo test -p plan-ledger-cli --test cli recorded_output::`. The
//! rule for changes is in `tests/snapshots/README.md`.

mod bytes;
mod cases;
mod commands;
mod commands_on_ledgers;
mod inspect_views;
mod ledgers;
mod pictures;
mod seeded_bugs;
mod session;
