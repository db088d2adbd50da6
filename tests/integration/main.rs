//! Integration tests.

mod inspect;
