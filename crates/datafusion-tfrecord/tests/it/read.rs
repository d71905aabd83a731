//! TFRecord files as tables.

mod columns;
mod damage;
mod filters;
mod overlap;
mod parts;
mod sets;
mod support;
