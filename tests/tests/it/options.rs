//! The reference tables of the guide are those that the options' declarations make.

use std::collections::BTreeSet;
use std::env;
use std::fs;

use datafusion_tfrecord::options::{MAPPING, OptionText, READING, STRICT, WRITING};
use tfr_formats::{PATH, input_options};
use tfr_tests::{repository, run, tfr_sql};

/// Writes the tables into the pages in place of comparing them.
const UPDATE: &str = "UPDATE_PAGES";

fn row(cells: &[&str]) -> String {
    let cells = cells.iter().map(|cell| format!("| {cell}{}", if cell.is_empty() { "" } else { " " }));
    format!("{}|\n", cells.collect::<String>())
}

/// A table of options of the command: those that its help lists.
fn flags(texts: impl IntoIterator<Item = OptionText>, help: &str) -> String {
    let words: BTreeSet<_> = help.split_whitespace().collect();
    let mut table = row(&["option", "meaning", "default"]) + "|---|---|---|\n";
    for text in texts {
        let flag = format!("--{}", text.key.replace('_', "-"));
        if words.contains(flag.as_str()) {
            let value = if text.value.contains(' ') { format!("'{}'", text.value) } else { text.value.to_owned() };
            table += &row(&[&format!("`{}`", format!("{flag} {value}").trim_end()), &meaning(&text), text.default]);
        }
    }
    table
}

fn meaning(text: &OptionText) -> String {
    format!("{}{}", text.help, if text.repeats { "; repeatable" } else { "" })
}

/// The table of the keys of inputs.
fn keys() -> String {
    let mut table = row(&["formats", "key", "value", "default"]) + "|---|---|---|---|\n";
    table += &row(&["all", &format!("`{}`", PATH.key), &meaning(&PATH), PATH.default]);
    let mut options = input_options().filter(|option| option.text().is_listed()).peekable();
    let mut last = options.peek().unwrap().formats;
    for option in options {
        let names: Vec<_> = option.formats.iter().map(|format| format.name()).collect();
        let formats = if option.formats == last { String::new() } else { names.join(", ") };
        last = option.formats;
        let text = option.text();
        let switch = text.value.is_empty() && !text.help.contains("`true`") && !text.help.contains("`false`");
        let value = format!("{}{}", meaning(&text), if switch { ": `true` or `false`" } else { "" });
        table += &row(&[&formats, &format!("`{}`", text.key), &value, text.default]);
    }
    table
}

#[test]
fn option_tables_in_pages_match_the_declarations() {
    let help = run(tfr_sql().arg("--help")).success().stdout;
    let mapping = MAPPING.iter().map(|option| option.text).chain([STRICT.text]);
    for (page, name, table) in [
        (
            "docs/options.md",
            "reading",
            flags(READING.iter().map(|option| option.text).filter(|text| text.key != "compression"), &help),
        ),
        ("docs/options.md", "writing", flags(WRITING.iter().map(|option| option.text), &help)),
        ("docs/options.md", "mapping", flags(mapping, &help)),
        ("docs/inputs.md", "inputs", keys()),
    ] {
        let path = repository().join(page);
        let text = fs::read_to_string(&path).unwrap();
        let begin = format!("<!-- options: {name} -->\n");
        let (before, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("{page}: no {begin}"));
        let (found, after) = rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{page}: {name} has no end"));
        if env::var_os(UPDATE).is_some() {
            fs::write(&path, format!("{before}{begin}{table}<!-- end -->{after}")).unwrap();
        } else {
            assert_eq!(found, table, "{page}: run this test with {UPDATE}=1 and look at the difference");
        }
    }
}
