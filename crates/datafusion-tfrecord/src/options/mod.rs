//! Options as text. Each option is declared once: its key, its help and its parser.
//!
//! `OPTIONS (...)` is parsed by [`WRITING`], [`MAPPING`], [`STRICT`] and [`READING`]. Other front ends, such as
//! command-line flags or function arguments, are generated from the same declarations:
//! [`set`](OptionDeclaration::set) sets a value, and [`text`](OptionDeclaration::text) provides the help.

mod rules;
pub(crate) mod sql;
mod tables;
pub mod values;

pub(crate) use rules::parse_columns;
pub use rules::{DEFAULT_SEED, parse_rule, parse_rules};
pub use tables::{MAPPING, READING, STRICT, WRITING};

/// An option that is set on a `T`.
#[derive(Clone, Copy, Debug)]
pub struct OptionDeclaration<T> {
    /// The option's name and help.
    pub text: OptionText,
    /// Parses a value and sets the option. On failure, returns a description of the expected value, such as `true or
    /// false`.
    pub set: fn(&mut T, &str) -> Result<(), String>,
}

/// The name and help of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionText {
    /// Its name, in lower case with underscores.
    pub key: &'static str,
    /// Accepted alternative names.
    pub aliases: &'static [&'static str],
    /// Placeholder for the value in help, such as `SIZE`. Empty for a switch, whose value is `true` or `false`.
    pub value: &'static str,
    /// Description in one line of Markdown, without a capital letter or a full stop. Links are relative to the guide.
    /// Empty if the option is accepted but not listed.
    pub help: &'static str,
    /// Its default, as Markdown. Empty if there is none.
    pub default: &'static str,
    /// Another option that must also be given. Empty if there is none.
    pub needs: &'static str,
    /// Options that cannot be combined with this one.
    pub excludes: &'static [&'static str],
    /// Whether the option may be given more than once.
    pub repeats: bool,
}

impl<T> OptionDeclaration<T> {
    /// Creates an unlisted option without aliases or relations to other options.
    pub const fn new(key: &'static str, value: &'static str, set: fn(&mut T, &str) -> Result<(), String>) -> Self {
        let text =
            OptionText { key, value, aliases: &[], help: "", default: "", needs: "", excludes: &[], repeats: false };
        Self { text, set }
    }

    /// Lists the option with this help and default, both in Markdown.
    pub const fn help(mut self, help: &'static str, default: &'static str) -> Self {
        (self.text.help, self.text.default) = (help, default);
        self
    }

    /// Adds alternative names.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.text.aliases = aliases;
        self
    }

    /// Requires another option to be given as well.
    pub const fn needs(mut self, key: &'static str) -> Self {
        self.text.needs = key;
        self
    }

    /// Adds options that cannot be combined with this one.
    pub const fn excludes(mut self, keys: &'static [&'static str]) -> Self {
        self.text.excludes = keys;
        self
    }

    /// Allows the option to be given more than once.
    pub const fn repeats(mut self) -> Self {
        self.text.repeats = true;
        self
    }
}

impl OptionText {
    /// Whether `key` is one of the option's names.
    pub fn is_named(&self, key: &str) -> bool {
        self.key == key || self.aliases.contains(&key)
    }

    /// Whether the option is listed in help.
    pub fn is_listed(&self) -> bool {
        !self.help.is_empty()
    }
}

/// Sets the option `key`. Returns `None` if no such option is declared.
fn set_option<T>(
    declared: &[OptionDeclaration<T>],
    options: &mut T,
    key: &str,
    value: &str,
) -> Option<Result<(), String>> {
    let option = declared.iter().find(|option| option.text.is_named(key))?;
    Some((option.set)(options, value))
}

/// Removes the Markdown used by help and defaults: backquotes and links.
///
/// ```
/// assert_eq!(datafusion_tfrecord::options::plain("as [text](types.md#text): `true`"), "as text: true");
/// ```
pub fn plain(markdown: &str) -> String {
    let mut text = String::with_capacity(markdown.len());
    let mut rest = markdown;
    while let Some((before, link)) = rest.split_once('[') {
        text.push_str(before);
        match link.split_once("](").and_then(|(label, url)| Some((label, url.split_once(')')?.1))) {
            Some((label, after)) => {
                text.push_str(label);
                rest = after;
            }
            None => {
                text.push('[');
                rest = link;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}
