//! Integration tests: one binary, so that it links once. Table of contents:

// The bytes that are fixed for ever.
mod golden;
// The rules of the house: layers, crates, sizes.
mod tidy;
