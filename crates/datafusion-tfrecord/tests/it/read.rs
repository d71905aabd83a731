//! TFRecord files as tables.

mod columns;
mod damage;
mod filters;
mod nested;
mod overlap;
mod parts;
mod sets;
mod support;
