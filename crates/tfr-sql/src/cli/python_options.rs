//! Makes the options of the Python package from those of the command.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command, CommandFactory as _};
use tfr_formats::{InputFormat, input_options};

use super::Cli;

/// Writes the file in place of comparing it.
const UPDATE: &str = "UPDATE_PAGES";

/// Options that the package sets itself, or has other means for.
const OWN: [&str; 16] = [
    "cluster", "color", "dry-run", "file", "format", "help", "messages", "out", "plan", "progress", "quiet", "report",
    "scratch", "table", "verbose", "version",
];

/// Options that concern a query, whatever happens to its rows.
const QUERY: [&str; 9] = [
    "allow",
    "hive-metastore",
    "infer-files",
    "infer-records",
    "memory-limit",
    "s3-endpoint",
    "temp-dir",
    "threads",
    "timeout",
];

const HEAD: &str = r#""""The options of the command by their Python names.

Made from the declarations of the command: `UPDATE_PAGES=1 tests/run -E 'test(python_options::)'` writes this file.
"""

from __future__ import annotations

import os
from typing import Mapping, Sequence, TypedDict, Union

Value = Union[str, int, float, "os.PathLike[str]"]

#: A list is joined with commas, a dictionary is written as `key=value,...`. Options that may be repeated are.
Values = Union[Value, Sequence[Value], Mapping[str, Value]]
"#;

/// The kind of an option, and its help.
struct OptionHelp {
    kind: &'static str,
    help: String,
}

type HelpByOption = BTreeMap<String, OptionHelp>;

fn of_command(command: &Command) -> HelpByOption {
    let option = |argument: &Arg| {
        let long = argument.get_long().filter(|long| !OWN.contains(long))?;
        let kind = match argument.get_action() {
            ArgAction::SetTrue => "flag",
            ArgAction::Append => "repeat",
            _ => "value",
        };
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        Some((long.replace('-', "_"), OptionHelp { kind, help }))
    };
    command.get_arguments().filter_map(option).collect()
}

fn of_records() -> HelpByOption {
    let is_read = |option: &tfr_formats::InputOption| {
        option.formats.is_empty() || option.formats.contains(&InputFormat::TfRecord)
    };
    let listed = input_options().filter(|option| option.text().is_listed() && is_read(option));
    let option = |text: datafusion_tfrecord::options::OptionText| {
        let kind = if text.repeats { "repeat" } else { "value" };
        (text.key.to_owned(), OptionHelp { kind, help: datafusion_tfrecord::options::plain(text.help) })
    };
    listed.map(|found| option(found.text())).filter(|(key, _)| key != "format").collect()
}

/// Returns a dictionary of kinds, and a class with the types of these options and of others.
fn python(name: &str, class: &str, options: &HelpByOption, others: &HelpByOption) -> String {
    let mut text = format!("\n{name}: dict[str, str] = {{\n");
    for (key, OptionHelp { kind, .. }) in options {
        let _ = writeln!(text, "    \"{key}\": \"{kind}\",");
    }
    let _ = write!(text, "}}\n\n\nclass {class}(TypedDict, total=False):\n");
    let all: BTreeMap<_, _> = others.iter().chain(options).collect();
    for (key, OptionHelp { kind, help }) in all {
        let data_type = match (*kind, key.as_str()) {
            (_, "shuffle") => "bool | int | None",
            ("flag", _) => "bool | None",
            _ => "Values | None",
        };
        let _ = writeln!(text, "    #: {}\n    {key}: {data_type}", help.lines().next().unwrap_or_default());
    }
    text
}

#[test]
fn python_options_match_the_command() {
    let mut command = Cli::command();
    command.build();
    let writing = of_command(&command);
    let is_query = |key: &&String| QUERY.contains(&key.replace('_', "-").as_str());
    let query: HelpByOption = of_command(&command).into_iter().filter(|(key, _)| is_query(&key)).collect();
    assert_eq!(query.len(), QUERY.len());
    let tool = |name: &str| of_command(command.find_subcommand(name).expect(name));
    let mut text = HEAD.to_owned();
    text += &python("QUERY", "QueryOptions", &query, &HelpByOption::new());
    text += &python("WRITING", "WriteOptions", &writing, &HelpByOption::new());
    text += &python("READING", "ReadOptions", &of_records(), &query);
    text += &python("RESHARD", "ReshardOptions", &tool("reshard"), &HelpByOption::new());
    text += &python("SALVAGE", "SalvageOptions", &tool("salvage"), &HelpByOption::new());
    text += &python("DESCRIBE", "DescribeOptions", &tool("describe"), &HelpByOption::new());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tfr-python/python/tfr_sql/_options.py");
    if std::env::var_os(UPDATE).is_some() {
        std::fs::write(&path, text).expect("written");
    } else {
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(found, text, "run this test with {UPDATE}=1 and look at the difference");
    }
}
