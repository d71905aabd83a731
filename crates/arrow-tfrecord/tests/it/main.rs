//! Records against independent oracles: messages built value by value, and the texts that users read.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod choices;
mod compact;
mod damage;
mod errors;
mod example_lists;
mod filter;
mod golden;
mod infer;
mod nested;
mod nested_tables;
mod nulls;
mod oracle;
mod packed;
mod quirks;
mod refusals;
mod roundtrip;
mod rules;
mod sequences;
mod tables;
mod tensors;
mod unframed;
mod vocabulary;
mod writer;
