//! The examples that people print in texts about plans, typed as they are printed, one test for
//! each claim. [`rows`] lists the claims with their tests, and [`demands`] those of the text about executing plans.

mod checked;
mod demands;
mod failures;
mod generated_exports;
mod generated_files;
mod inputs;
mod plan_files;
mod planning;
mod routing;
mod rows;
mod signals;
mod stories;
mod views;
