//! The examples that people print in texts about plans, typed as they are printed, one test for
//! each claim.

mod checked;
mod failures;
mod generated_files;
mod inputs;
mod plan_files;
mod planning;
mod routing;
mod signals;
mod views;
