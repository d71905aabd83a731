//! Statistics as an HTML page: one file without scripts and without external resources.

use std::fmt::Write;

use arrow_tfrecord::FeatureKind;

use super::{FeatureStatistics, FrequentValue, HistogramBucket, Statistics, Value, Vocabularies};

/// The number of bars of a histogram.
const BARS: usize = 24;

/// The number of frequent values shown.
const SHOWN_VALUES: usize = 5;

/// The number of characters of a value shown.
const SHOWN_LETTERS: usize = 40;

/// Sizes of a histogram, in SVG user units.
const BAR_WIDTH: usize = 6;
const HEIGHT: usize = 40;

const STYLE: &str = include_str!("page.css");

impl Statistics {
    /// Renders these statistics as a self-contained HTML page with this title. It has one row per feature, shown as
    /// cards on narrow screens.
    pub fn to_html(&self, title: &str, vocabularies: &Vocabularies<'_>) -> String {
        let title = escaped(title);
        let features = self.features.len();
        let mut page = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<p>{} records, {features} features. A <b>≈</b> marks estimates: medians and histograms by \
             rank within 1\u{202f}%, numbers of distinct values within 4\u{202f}%.</p>\n",
            counted(self.rows),
        );
        page += "<table>\n<thead><tr><th>Feature</th><th>Missing</th><th>Values</th><th>Histogram</th>\
                 <th>Frequent values</th></tr></thead>\n<tbody>\n";
        for feature in &self.features {
            self.row(feature, vocabularies, &mut page);
        }
        page += "</tbody>\n</table>\n</body>\n</html>\n";
        page
    }

    fn row(&self, feature: &FeatureStatistics, vocabularies: &Vocabularies<'_>, page: &mut String) {
        let kind = match feature.kind() {
            FeatureKind::Int64 => "int64",
            FeatureKind::Float => "float",
            FeatureKind::Bytes if feature.is_text() => "text",
            FeatureKind::Bytes => "bytes",
        };
        let list = if feature.is_list() { " list" } else { "" };
        let missing = share(feature.missing(), self.rows);
        let alarm = if feature.missing() * 2 > self.rows { " class=\"alarm\"" } else { "" };
        let cells = [
            (String::new(), format!("<b>{}</b><br><small>{kind}{list}</small>", escaped(feature.name()))),
            ("Missing".to_owned(), format!("<span{alarm}>{missing}</span>{}", of_missing(feature.missing()))),
            ("Values".to_owned(), figures(feature)),
            ("Histogram".to_owned(), histogram(feature)),
            ("Frequent values".to_owned(), frequent(feature, vocabularies)),
        ];
        *page += "<tr>";
        for (label, cell) in cells {
            // Writing to a string cannot fail.
            let _ = match cell.is_empty() {
                true => write!(page, "<td class=\"none\"></td>"),
                false => write!(page, "<td data-label=\"{label}\">{cell}</td>"),
            };
        }
        *page += "</tr>\n";
    }
}

fn of_missing(missing: u64) -> String {
    if missing == 0 { String::new() } else { format!("<br><small>{} records</small>", counted(missing)) }
}

/// The figures of a feature: names and values.
fn figures(feature: &FeatureStatistics) -> String {
    let mut figures: Vec<(&str, String)> = Vec::new();
    if let Some((least, greatest)) = feature.integers() {
        figures.push(("min", grouped(&least.to_string())));
        figures.push(("max", grouped(&greatest.to_string())));
    } else if let (Some(least), Some(greatest)) = (feature.min(), feature.max()) {
        figures.push(("min", number(least)));
        figures.push(("max", number(greatest)));
    }
    figures.extend(feature.mean().map(|mean| ("mean", number(mean))));
    let estimated = if feature.are_ranks_exact() { "" } else { "≈\u{202f}" };
    figures.extend(feature.median().map(|median| ("median", format!("{estimated}{}", number(median)))));
    figures.extend(feature.std_dev().map(|deviation| ("std dev", number(deviation))));
    let numbers = feature.total_values();
    figures.extend(feature.zeros().map(|zeros| ("zeros", share(zeros, numbers))));
    let special = [("NaN", feature.nans()), ("infinite", feature.infinities())];
    figures.extend(special.iter().filter_map(|(name, count)| Some((*name, counted((*count).filter(|c| *c > 0)?)))));
    if let Some((least, mean, greatest)) = feature.byte_lengths() {
        figures.push(("bytes", range(least, greatest)));
        if least < greatest {
            figures.push(("mean bytes", number(mean)));
        }
    }
    if let Some(distinct) = feature.distinct() {
        let about = if feature.is_distinct_exact() { "" } else { "≈\u{202f}" };
        figures.push(("distinct", format!("{about}{}", counted(distinct))));
    }
    if feature.is_list()
        && let Some((least, most)) = feature.num_values()
    {
        figures.push(("list length", range(least, most)));
        if least < most {
            let mean = feature.total_values() as f64 / feature.present().max(1) as f64;
            figures.push(("mean length", number(mean)));
        }
    }
    if figures.is_empty() {
        return String::new();
    }
    let figures = figures.into_iter().map(|(name, value)| format!("<div><dt>{name}</dt><dd>{value}</dd></div>"));
    format!("<dl>{}</dl>", figures.collect::<String>())
}

/// The bars of numbers: one for each integer, if these are few and close together.
fn histogram(feature: &FeatureStatistics) -> String {
    match each_integer(feature) {
        Some(buckets) => drawn(&buckets),
        None => drawn(&feature.histogram(BARS)),
    }
}

fn each_integer(feature: &FeatureStatistics) -> Option<Vec<HistogramBucket>> {
    let (least, greatest) = feature.integers().filter(|_| feature.is_distinct_exact())?;
    let width = usize::try_from(greatest.checked_sub(least)?).ok().filter(|width| *width < BARS)?;
    let bucket = |value: i64| HistogramBucket { low: value as f64, high: value as f64, count: 0.0 };
    let mut buckets: Vec<_> = (least..=greatest).map(bucket).collect();
    for frequent in feature.frequent(width + 1) {
        if let Value::Int64(value) = frequent.value
            && let Ok(place) = usize::try_from(value - least)
            && let Some(bucket) = buckets.get_mut(place)
        {
            bucket.count = frequent.count as f64;
        }
    }
    Some(buckets)
}

fn drawn(buckets: &[HistogramBucket]) -> String {
    let most = buckets.iter().map(|bucket| bucket.count).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (buckets.first(), buckets.last()) else { return String::new() };
    let width = BARS * BAR_WIDTH;
    let mut drawing = format!(
        "<svg viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" role=\"img\" \
         aria-label=\"histogram from {} to {}\">",
        number(first.low),
        number(last.high)
    );
    let bar_width = (width / buckets.len()).min(2 * BAR_WIDTH);
    for (place, bucket) in buckets.iter().enumerate().filter(|(_, bucket)| bucket.count > 0.0) {
        // Every nonempty bar is visible.
        let height = (bucket.count / most * HEIGHT as f64).max(1.0);
        let (x, y) = (place * bar_width, HEIGHT as f64 - height);
        let _ = write!(
            drawing,
            "<rect x=\"{x}\" y=\"{y:.1}\" width=\"{}\" height=\"{height:.1}\"><title>{}: {}</title></rect>",
            bar_width.saturating_sub(1),
            if bucket.low == bucket.high {
                number(bucket.low)
            } else {
                format!("{} to {}", number(bucket.low), number(bucket.high))
            },
            counted(bucket.count.round() as u64)
        );
    }
    let _ = write!(
        drawing,
        "</svg><div class=\"axis\" style=\"max-width:{}px\"><small>{}</small><small>{}</small></div>",
        bar_width * buckets.len(),
        short(first.low),
        if last.high > first.low { short(last.high) } else { String::new() }
    );
    drawing
}

fn frequent(feature: &FeatureStatistics, vocabularies: &Vocabularies<'_>) -> String {
    // If all values are distinct, no values are shown.
    let values: Vec<FrequentValue> = feature.frequent(SHOWN_VALUES);
    if values.first().is_none_or(|value| value.count <= 1) {
        return String::new();
    }
    let about = if feature.is_distinct_exact() { "" } else { "≈\u{202f}" };
    let item = |value: &FrequentValue| {
        let text = vocabularies.text(feature, &value.value);
        let shown: String = text.chars().take(SHOWN_LETTERS).collect();
        let rest = if shown.len() < text.len() { "…" } else { "" };
        let shown = if text.is_empty() { "<i>empty</i>".to_owned() } else { escaped(&format!("{shown}{rest}")) };
        format!("<li><span>{shown}</span> <small>{about}{}</small></li>", share(value.count, feature.total_values()))
    };
    format!("<ol>{}</ol>", values.iter().map(item).collect::<String>())
}

fn range(least: u64, greatest: u64) -> String {
    match least == greatest {
        true => counted(least),
        false => format!("{} to {}", counted(least), counted(greatest)),
    }
}

/// A share in percent. 0 and 100 are shown only if exact.
fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0\u{202f}%".to_owned();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    let percent = match percent {
        _ if part == whole => "100".to_owned(),
        small if small < 0.01 => "&lt;\u{202f}0.01".to_owned(),
        large if large > 99.99 => "&gt;\u{202f}99.99".to_owned(),
        small if small < 1.0 => format!("{small:.2}"),
        other => format!("{other:.1}"),
    };
    format!("{percent}\u{202f}%")
}

/// A count with thousands separators.
fn counted(count: u64) -> String {
    grouped(&count.to_string())
}

fn grouped(digits: &str) -> String {
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("−", digits));
    let mut text = String::from(sign);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number with at most six digits, as HTML text.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "NaN"
        } else if value > 0.0 {
            "∞"
        } else {
            "−∞"
        }
        .to_owned();
    }
    let size = value.abs();
    let text = if value == value.trunc() && size < 1e15 {
        return grouped(&format!("{value:.0}"));
    } else if !(1e-4..1e7).contains(&size) {
        format!("{value:.3e}")
    } else {
        let digits = 5_usize.saturating_sub(size.log10().floor().max(0.0) as usize);
        let text = format!("{value:.digits$}");
        match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        }
    };
    text.replace('-', "−")
}

/// A number below a histogram.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1e8 && size.is_finite() => format!("{value:.1e}").replace('-', "−"),
        _ => number(value),
    }
}

/// Escapes text for HTML. Control characters and direction marks are shown as escapes.
fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            letter if letter.is_control() || turns_text(letter) => html.extend(letter.escape_default()),
            letter => html.push(letter),
        }
    }
    html
}

/// Whether a character changes the direction of the text after it.
fn turns_text(letter: char) -> bool {
    matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
