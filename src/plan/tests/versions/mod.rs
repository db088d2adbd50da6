//! Plan versions: what an activation keeps and discards, what is kept across versions, and replan
//! requests.

mod activation;
mod carry_over;
mod replan_requests;
