//! TFRecord files as tables.

mod columns;
mod damage;
mod declared;
mod filters;
mod nested;
mod overlap;
mod parts;
mod sequences;
mod sets;
mod support;
