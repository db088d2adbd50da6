//! Integration tests: one binary, so that it links once. Table of contents:

// The rules of the house: layers, crates, sizes.
mod tidy;
