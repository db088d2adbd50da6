//! Plan versions: what an activation keeps and drops, what outlives a version, and replan requests.

mod activation;
mod carry_over;
mod replan_requests;
