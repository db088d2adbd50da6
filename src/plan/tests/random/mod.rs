//! Random tests: random commands on random plans against a reference model, and random event logs.

mod commands;
mod forged_events;
mod histories;
mod lost_records;
mod plans;
mod reference;
mod rng;
