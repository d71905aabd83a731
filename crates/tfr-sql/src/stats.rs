//! `stats`: prints statistics of the features of records, as a table or a page.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use tempfile::NamedTempFile;
use tfrecord_sidecars::describe::{DescribeOptions, describe};
use tfrecord_sidecars::stats::{FeatureStatistics, Statistics, Vocabularies};

use crate::access;
use crate::cli::StatsArgs;
use crate::describe::local;
use crate::error::{Error, Result};
use crate::exit::ExitStatus;
use crate::printer::escape_controls;
use crate::report::{FeatureReport, Outcome, Report, StatsReport};
use crate::tool::Work;

/// Maximum number of characters of a value that are shown.
const MOST_LETTERS: usize = 24;

/// Maximum number of frequent values that are shown.
const MOST_FREQUENT: usize = 3;

/// Reads the records and prints their statistics.
pub fn run(args: &StatsArgs, mut work: Work<'_>) -> Result<ExitStatus> {
    let path = local(&args.path)?.to_owned();
    access::check_input(&path, &work.door)?;
    for file in [&args.html, &args.proto].into_iter().flatten() {
        access::check_output(file, &work.door)?;
    }
    fs::metadata(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
    let description = match work.until_signal(move || Ok(describe(&path, &DescribeOptions::default())?))? {
        Ok(description) => description,
        Err(status) => return Ok(status),
    };
    description.missing_parts.iter().for_each(|missing| work.printer.warning(missing));
    let statistics = &description.statistics;
    let vocabularies = Vocabularies::new(&description.mapping);
    let title = args.path.canonicalize().unwrap_or_else(|_| args.path.clone());
    let title = title.file_name().unwrap_or(args.path.as_os_str()).to_string_lossy();
    if let Some(html) = &args.html {
        write_file(html, statistics.to_html(&title, &vocabularies).as_bytes())?;
    }
    if let Some(proto) = &args.proto {
        write_file(proto, &statistics.to_proto(&title))?;
    }
    let text = table(statistics, &vocabularies);
    let report = StatsReport {
        records: statistics.rows(),
        files: description.files.len() as u64,
        features: statistics.features().iter().map(|feature| FeatureReport::new(feature, &vocabularies)).collect(),
        text: text.clone(),
    };
    let report = Report::new(Outcome::Stats(report), work.started.elapsed());
    let text = if args.report.is_some() { report.to_json() } else { text };
    work.printer.data(text.as_bytes()).map_err(Error::Stdout)?;
    work.printer.note(report.summary());
    Ok(ExitStatus::Done)
}

/// Writes a file atomically.
fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    try_write_file(path, content).map_err(|error| Error::Write { path: path.to_owned(), source: Box::new(error) })
}

fn try_write_file(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // With the permissions of a file that `fs::write` creates.
    let mut file = tempfile::Builder::new().make_in(dir, |path| fs::File::create_new(path))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    NamedTempFile::persist(file, path)?;
    Ok(())
}

const HEADER: [&str; 11] =
    ["feature", "type", "missing", "values", "min", "mean", "median", "max", "zeros", "distinct", "most frequent"];

/// Formats a line for each feature, with aligned columns.
fn table(statistics: &Statistics, vocabularies: &Vocabularies<'_>) -> String {
    let rows: Vec<_> =
        statistics.features().iter().map(|feature| line(feature, statistics.rows(), vocabularies)).collect();
    let widths: Vec<usize> = (0..HEADER.len())
        .map(|column| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([HEADER.get(column).map_or(0, |name| name.len())]).max().unwrap_or(0)
        })
        .collect();
    let mut text = String::new();
    let mut push = |cells: &[String]| {
        let mut line = String::new();
        for ((column, cell), width) in cells.iter().enumerate().zip(&widths) {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
            // Text is aligned left, numbers right.
            let is_word = column < 2 || column + 1 == HEADER.len();
            line += &if is_word { format!("{cell}{gap}") } else { format!("{gap}{cell}") };
            line += "  ";
        }
        text += line.trim_end();
        text.push('\n');
    };
    push(&HEADER.map(str::to_owned));
    rows.iter().for_each(|row| push(row));
    text
}

fn line(feature: &FeatureStatistics, rows: u64, vocabularies: &Vocabularies<'_>) -> Vec<String> {
    let kind = match (feature.kind().to_string(), feature.is_text(), feature.is_list()) {
        (_, true, false) => "text".to_owned(),
        (_, true, true) => "text list".to_owned(),
        (kind, false, false) => kind.trim_end_matches("_list").to_owned(),
        (kind, false, true) => format!("{} list", kind.trim_end_matches("_list")),
    };
    let values = match feature.num_values() {
        Some((1, 1)) | None => String::new(),
        Some((least, most)) if least == most => least.to_string(),
        Some((least, most)) => format!("{least}..{most}"),
    };
    let (low, mean, median, high) = match feature.byte_lengths() {
        Some((low, mean, high)) => {
            (format!("{low} B"), format!("{} B", number(mean)), String::new(), format!("{high} B"))
        }
        None => {
            let number = |value: Option<f64>| value.map(number).unwrap_or_default();
            (number(feature.min()), number(feature.mean()), number(feature.median()), number(feature.max()))
        }
    };
    let distinct = feature.distinct().map(|count| match feature.is_distinct_exact() {
        true => count.to_string(),
        false => format!("~{count}"),
    });
    let frequent = feature.frequent(MOST_FREQUENT);
    let frequent: Vec<_> =
        frequent.iter().map(|frequent| shown(&vocabularies.text(feature, &frequent.value))).collect();
    vec![
        shown(feature.name()),
        kind,
        share(feature.missing(), rows),
        values,
        low,
        mean,
        median,
        high,
        feature.zeros().map(|zeros| share(zeros, feature.total_values())).unwrap_or_default(),
        distinct.unwrap_or_default(),
        frequent.join(", "),
    ]
}

fn share(part: u64, whole: u64) -> String {
    match part {
        0 => String::new(),
        part => format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64),
    }
}

/// Formats a number with at most six digits.
fn number(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || (value == value.trunc() && size < 1e15) {
        return value.to_string();
    }
    if !(1e-4..1e7).contains(&size) {
        return format!("{value:.3e}");
    }
    let digits = 5_usize.saturating_sub(size.log10().floor().max(0.0) as usize);
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Formats a value with few characters, none of which moves the cursor.
fn shown(value: &str) -> String {
    let text = escape_controls(value);
    match text.char_indices().nth(MOST_LETTERS) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.into_owned(),
    }
}
