//! Options as text. Each is declared once: its key, its words and how its value is parsed.
//!
//! `OPTIONS (...)` is parsed by [`WRITING`], [`MAPPING`], [`STRICT`] and [`READING`]. Whoever offers the same options in another
//! form, as flags or as arguments of a function, makes them from these declarations: a value is set by
//! [`set`](OptionDeclaration::set), and help is printed from [`text`](OptionDeclaration::text).

mod rules;
pub(crate) mod sql;
mod tables;
pub mod values;

pub use rules::{DEFAULT_SEED, parse_columns, parse_rule, parse_rules, parse_split_shards};
pub use tables::{MAPPING, READING, STRICT, WRITING};

/// An option that is set on a `T`.
#[derive(Clone, Copy, Debug)]
pub struct OptionDeclaration<T> {
    /// Its name and its help.
    pub text: OptionText,
    /// Sets it from its text. Fails with what is expected instead, such as `true or false`.
    pub set: fn(&mut T, &str) -> Result<(), String>,
}

/// The name of an option, and its help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionText {
    /// Its name, in lower case with underscores.
    pub key: &'static str,
    /// Other names that are accepted.
    pub aliases: &'static [&'static str],
    /// What stands for its value in help, such as `SIZE`. Empty for a switch, whose value is `true` or `false`.
    pub value: &'static str,
    /// What it does, as one line of Markdown without a capital letter or a full stop. Links are relative to the guide. Empty if
    /// the option is accepted but not listed.
    pub help: &'static str,
    /// Its default, as Markdown. Empty if there is none.
    pub default: &'static str,
    /// Another option that has to be given with it. Empty if there is none.
    pub needs: &'static str,
    /// Other options that cannot be given with it.
    pub excludes: &'static [&'static str],
    /// Whether it may be given several times.
    pub repeats: bool,
}

impl<T> OptionDeclaration<T> {
    /// An option that is not listed, without aliases or relations to others.
    pub const fn new(key: &'static str, value: &'static str, set: fn(&mut T, &str) -> Result<(), String>) -> Self {
        let text =
            OptionText { key, value, aliases: &[], help: "", default: "", needs: "", excludes: &[], repeats: false };
        Self { text, set }
    }

    /// Lists it with this help and default, both Markdown.
    pub const fn help(mut self, help: &'static str, default: &'static str) -> Self {
        (self.text.help, self.text.default) = (help, default);
        self
    }

    /// Adds other names.
    pub const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.text.aliases = aliases;
        self
    }

    /// Adds the option that has to be given with it.
    pub const fn needs(mut self, key: &'static str) -> Self {
        self.text.needs = key;
        self
    }

    /// Adds options that cannot be given with it.
    pub const fn excludes(mut self, keys: &'static [&'static str]) -> Self {
        self.text.excludes = keys;
        self
    }

    /// Allows it several times.
    pub const fn repeats(mut self) -> Self {
        self.text.repeats = true;
        self
    }
}

impl OptionText {
    /// Whether `key` is one of its names.
    pub fn is_named(&self, key: &str) -> bool {
        self.key == key || self.aliases.contains(&key)
    }

    /// Whether it is listed in help.
    pub fn is_listed(&self) -> bool {
        !self.help.is_empty()
    }
}

/// Sets the option `key` if it is declared: `None` if it is not.
pub fn set_option<T>(
    declared: &[OptionDeclaration<T>],
    options: &mut T,
    key: &str,
    value: &str,
) -> Option<Result<(), String>> {
    let option = declared.iter().find(|option| option.text.is_named(key))?;
    Some((option.set)(options, value))
}

/// A text without the marks of Markdown that help and defaults have: backquotes and links.
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
