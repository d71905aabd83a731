//! The command as a user meets it: what it prints, what it leaves on disk, how it ends.

mod bench;
mod dry_run;
mod help;
mod names;
mod print;
mod signals;
mod usage;
mod write;
