//! Tests of size: full batches, and costs that must not grow with the plan.

mod batch_size;
mod scaling;
