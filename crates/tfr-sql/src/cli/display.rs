//! Options for messages, of a query and of every tool.

use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};

use super::messages::MessageTarget;
use super::values;

/// The display options of the command.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Display")]
#[group(skip)]
#[non_exhaustive]
pub struct Display {
    /// Show progress: auto (on a terminal), always or never
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub progress: When,

    /// Use colour: auto, always or never; NO_COLOR is honoured
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true,
        hide_short_help = true
    )]
    pub color: When,

    /// Write messages and progress as JSON lines to a descriptor (fd:N) or a file, not to standard error
    ///
    /// One object a line: an error, a warning, a note or progress. An error has its kind, its causes, a hint, the exit
    /// code, and where it is known the file, record, byte, column and row. docs/messages.md describes them.
    #[arg(long, global = true, value_name = "TARGET", value_parser = MessageTarget::open, hide_short_help = true)]
    pub messages: Option<MessageTarget>,

    /// Stop after this time, such as 90s, 30m or 12h, as after SIGTERM; the exit code is then 124
    ///
    /// The time begins when the command has read its arguments. Nothing is left of a run that is stopped. One that
    /// publishes its output at that moment goes on.
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        value_parser = values::time,
        help_heading = "Resources",
        hide_short_help = true
    )]
    pub timeout: Option<Duration>,

    /// Print only errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print settings and the plan; twice: also what the engine logs
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

/// Whether to do something that depends on the terminal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When standard error is a terminal.
    #[default]
    Auto,
    /// Whatever standard error is.
    Always,
    /// Not at all.
    Never,
}

/// Form of the summary on standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// The object that `schemas/report.schema.json` describes.
    Json,
}
