//! Tests of failed attempts: the rules that decide about them, and fallbacks.

mod fallbacks;
mod rules;
