//! Integration tests: one binary, so that it links once. Table of contents:
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on has failed, helpers included"
)]

// One command for every act, and the same answers from whoever holds the ledger.
mod acts;
// What is told of a state that may not be durable: nothing.
mod answers;
// Snapshots that say what is other than in an older one.
mod backups;
mod based;
// Large outputs beside the log.
mod blobs;
// The promises about claims, across losses of power.
mod chaos;
mod claims;
// How the tests use the `ledger` binary.
mod command;
// A disk that runs full.
mod dice;
mod disk_full;
// `ledger drill` over example plans and plans of other tools.
mod drill;
mod earnest;
// Export, import, and the same chain again.
mod export;
// A forged run, met by every command.
mod forged;
// The facade: threads, exact replay, refused and failed writes.
mod facade;
// Which ledger is meant.
mod folder;
// Following a log while it grows.
mod follow;
// The bytes that are fixed for ever.
mod golden;
// Ledgers whose bytes are fixed: whole, torn, corrupt, fenced, from the future.
mod golden_ledgers;
// Many threads on one log: shared syncs, tickets, who wins, who is answered.
mod group_commit;
// Every hazard of the list is answered.
mod hazards;
// Holders in trouble: nonsense, more clients than files, a write that fails.
mod holders;
// Plan files of other tools, and what survives export and import.
mod import_plans;
// `ledger plan lint`, `show` and `export`: people, programs, wrong input.
mod import_commands;
// `ledger inspect`: human output, JSON, damaged and live ledgers.
mod inspect;
// What it says of runs: the plan and how far it is.
mod inspect_plan;
// What it says of the past, and of what changed.
mod inspect_time;
// The pictures that it draws.
mod inspect_pictures;
// Long work that is stopped with Ctrl-C.
mod interrupted;
// A run killed from outside, again and again.
mod kill;
// `ledger inspect` over ledgers that were damaged at random.
mod inspect_damage;
// `ledger inspect`: the log, byte by byte, and exports.
mod inspect_log;
// Workers from outside that cannot say what they did.
mod insisting;
// What the tests share: records, options, a model of what must be there.
mod lab;
// The crash laboratory with a small budget, and proofs that it can fail.
mod laboratory;
// Crashes before every call of the disk, and again during recovery.
mod log_crash;
// Damaged bytes: flipped, zeroed, cut off.
mod log_damage;
// Calls of the disk that fail, and full disks.
mod log_faults;
// Files that are missing, swapped, copied, renamed, or not ours.
mod log_files;
// Hazards that cost other engines data, by their number in the list that we keep.
mod log_hazards;
// Commands that look at a ledger that is damaged, or newer than the program.
mod looks;
// Metrics, traces and comparisons of runs.
mod histories;
// Keys of batches: written once, found again.
mod log_keys;
// Who may write, and what readers change: nothing.
mod log_lock;
// Appending, rotating, reopening, reading: nothing goes wrong.
mod log_round_trip;
// What a plan file marks as done or dropped.
mod marks;
// Every file, and every act of a clumsy hand.
mod mischief;
// Every line of JSON is one that is published.
mod published;
// The first program that a reader sees.
mod quickstart;
// Many shells that claim the same steps.
mod race;
// Many at once: threads and processes that want the same.
mod races;
// The real program on a real kernel: the order of system calls, and calls that do less.
mod reality;
mod recipes;
// What is rarely wrong with a log, and is told all the same.
mod rare;
// Output, files and results, compared with committed snapshots.
mod recorded_output;
// Reading from anywhere, backwards, by kind, by stream.
mod readers;
// Writers that must stop: forks, lost locks, panics; and what is left to a policy.
mod log_stop;
// Steps done from outside of a runner: judged, held, told of their files.
mod outside;
mod pace;
// What waits for people, and the commands by which they answer and steer.
mod people;
// `ledger plan`: plan files checked, compared, completed; versions reviewed.
mod plan_commands;
// Archives and pruning.
mod retention;
// `ledger run`: what a run does, says and returns.
mod run;
// What can be saved of a damaged ledger.
mod salvage;
// Sealed segments: index, footer, replica of the header.
mod sealed;
// Every fault that the simulated disk can inject, and what is said of it.
mod sim_faults;
// The simulated disk against the real one, and against what it promises of power losses.
mod sim_model;
// Snapshots: made, damaged, foreign, missing, crashed.
mod snapshots;
// What a ledger is for, told to the end.
mod stories;
// What the stories share.
mod story;
// The socket of a ledger that is held.
mod socket;
// Any state at any record, from the start, from a snapshot, live.
mod time_travel;
// What a log asks of the disk, and in which order.
mod trace;
// Turns at the disk: who is answered by which sync.
mod turns;
// Every bit of a ledger, flipped.
mod sweep;
// The rules of the house: layers, crates, sizes.
mod tidy;
// `ledger verify` and `ledger root`.
mod verify;
mod verify_derived;
// A history in which everything happens that can happen to runs.
mod wild;
// The words by which people name steps and runs.
mod words;
// What people get wrong.
mod wrong_input;
// Seeded bugs, each of which must be found.
#[cfg(bug_zoo)]
mod zoo;
