//! The help of `--table`, generated from the declarations of the input keys.

use datafusion_tfrecord::options::{OptionText, plain};
use tfr_formats::{InputFormat, PATH, input_options};

const BEFORE: &str = "\
Register an input under a name: NAME=URL[,key=value…]; repeatable

The URL is a path, a pattern of paths, or - for standard input, which is copied to --temp-dir. Remote URLs start \
with s3://, gs://, az://, abfss://, hdfs:// or https://. Put a part with a comma in double quotes: --table \
't=\"a,b.csv\",delimiter=;'. These are the keys. CREATE EXTERNAL TABLE accepts them as OPTIONS too, except for \
path and format. For Hive text, Hive's names are accepted as well, such as field.delim:
";

/// The first and last column of a key's help on a terminal of 100 columns.
const COLUMNS: [usize; 2] = [24, 90];

/// Returns the long help of `--table`.
pub(super) fn table_help() -> String {
    let mut help = BEFORE.to_owned();
    add(&mut help, &PATH);
    let mut formats: &[InputFormat] = &[];
    for option in input_options().filter(|option| option.text().is_listed()) {
        // The first keys apply to every format, like the path.
        if formats != option.formats && !formats.is_empty() {
            let names: Vec<_> = option.formats.iter().map(|format| format.name()).collect();
            help += &format!("\nfor {}:", names.join(", "));
        }
        formats = option.formats;
        add(&mut help, &option.text());
    }
    help
}

/// Adds a key and its help, wrapped at word boundaries.
fn add(help: &mut String, text: &OptionText) {
    let [begin, end] = COLUMNS;
    let mut line = format!("  {:1$}", text.key, begin - 2);
    let mut words = plain(text.help);
    words.push_str(if text.repeats { "; repeatable" } else { "" });
    if text.value.is_empty() && !["true", "false"].iter().any(|value| words.contains(value)) {
        words += ": true or false";
    }
    if !text.default.is_empty() {
        words += &format!(" [default: {}]", plain(text.default));
    }
    for word in words.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > end {
            help.push('\n');
            help.push_str(line.trim_end());
            line = " ".repeat(begin);
        }
        if !line.ends_with(' ') {
            line.push(' ');
        }
        line.push_str(word);
    }
    help.push('\n');
    help.push_str(line.trim_end());
}
