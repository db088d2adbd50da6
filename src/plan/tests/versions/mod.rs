//! Plan versions: activation, state that is kept across versions, and replan requests.

mod activation;
mod carry_over;
mod replan_requests;
