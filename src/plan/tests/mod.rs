//! Tests of the state machine as a whole.
