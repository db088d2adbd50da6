//! Tests of later plan versions: how they are requested, and what they keep of earlier work.

mod carry_over;
mod requests;
mod versions;
