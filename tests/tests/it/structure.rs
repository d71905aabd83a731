//! The structure of the crates: no import cycles between files, short files, libraries that do not name the command, one
//! place that knows nested types, and one meaning for the name of a type.

mod engine_heads;
mod feature_table;
mod lines;
mod nested_types;
mod type_names;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use tfr_tests::repository;

/// A module by the names that lead to it; the crate itself has none.
type Module = Vec<String>;

/// What a file outside of tests holds.
#[derive(Debug, Default)]
struct Source {
    path: PathBuf,
    lines: usize,
    /// Modules that are files of their own.
    modules: Vec<Module>,
    /// Paths that begin with `crate` or `super`, as if from the root of the crate.
    paths: Vec<Module>,
    /// Texts that name an option or a tool of the command.
    messages: Vec<String>,
    /// Mentions of Arrow's nested types.
    nested_types: usize,
    /// The names of the types that it defines.
    types: Vec<String>,
}

impl Source {
    fn read(path: PathBuf, module: &[String]) -> Self {
        let text = fs::read_to_string(&path).unwrap();
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut source = Self { path, lines: text.lines().count(), ..Self::default() };
        source.walk(tokens, module, true);
        source
    }

    /// `are_items`: whether the tokens are those of a module, not of an item in it.
    fn walk(&mut self, tokens: TokenStream, module: &[String], are_items: bool) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += 1;
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    at += usize::from(tokens.get(at).is_some_and(|token| is_punct(token, '!')));
                    let Some(TokenTree::Group(attribute)) = tokens.get(at) else { continue };
                    let text = attribute.to_string().replace([' ', '\n'], "");
                    if text.starts_with("[cfg(test") || text.starts_with("[cfg(all(test") {
                        // The item ends with its body or with a semicolon.
                        let is_end = |token: &TokenTree| match token {
                            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
                            other => is_punct(other, ';'),
                        };
                        at += 1 + tokens[at..].iter().take_while(|token| !is_end(token)).count();
                    } else if text.starts_with("[doc=") {
                        at += 1;
                    }
                }
                TokenTree::Ident(word) if word == "mod" => {
                    let Some(TokenTree::Ident(name)) = tokens.get(at) else { continue };
                    let inner = [module, &[name.to_string()]].concat();
                    match tokens.get(at + 1) {
                        Some(TokenTree::Group(body)) => self.walk(body.stream(), &inner, true),
                        _ => self.modules.push(inner),
                    }
                    at += 2;
                }
                TokenTree::Ident(word) if type_names::defines(word, are_items) => {
                    let Some(TokenTree::Ident(name)) = tokens.get(at) else { continue };
                    self.types.push(name.to_string());
                }
                // Who may see an item is no import.
                TokenTree::Ident(word) if word == "pub" => {
                    let is_scope = |group: &Group| group.delimiter() == Delimiter::Parenthesis;
                    at += usize::from(matches!(tokens.get(at), Some(TokenTree::Group(group)) if is_scope(group)));
                }
                TokenTree::Ident(word) if word == "crate" || word == "super" => {
                    let base = if word == "crate" { &module[..0] } else { &module[..module.len().saturating_sub(1)] };
                    self.path(&tokens[at..], base.to_vec());
                }
                TokenTree::Ident(word) if nested_types::ALIASES.iter().any(|alias| word == alias) => {
                    self.nested_types += nested_types::mentions(&tokens[at..]);
                }
                TokenTree::Group(group) => self.walk(group.stream(), module, false),
                TokenTree::Literal(literal) => {
                    self.messages.extend(Some(literal.to_string()).filter(|text| names_the_command(text)));
                }
                _ => {}
            }
        }
    }

    /// Notes the paths that go on from `base` with `tokens`: several where a list of `use` stands in braces.
    fn path(&mut self, tokens: &[TokenTree], mut base: Module) {
        let mut rest = tokens;
        while let [first, second, next, ..] = rest
            && is_punct(first, ':')
            && is_punct(second, ':')
        {
            match next {
                TokenTree::Ident(name) if name == "super" => drop(base.pop()),
                TokenTree::Ident(name) => base.push(name.to_string()),
                TokenTree::Group(list) if list.delimiter() == Delimiter::Brace => {
                    let list: Vec<_> = list.stream().into_iter().collect();
                    for name in list.split(|token| is_punct(token, ',')) {
                        match name {
                            [TokenTree::Ident(first), more @ ..] if first != "self" => {
                                self.path(more, [base.as_slice(), &[first.to_string()]].concat());
                            }
                            _ => self.paths.push(base.clone()),
                        }
                    }
                    return;
                }
                _ => break,
            }
            rest = &rest[3..];
        }
        self.paths.push(base);
    }
}

fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

/// Whether a text has `--option` or `tfr-sql tool` in it.
fn names_the_command(text: &str) -> bool {
    let begins_with_letter = |rest: &str| rest.starts_with(|c: char| c.is_ascii_lowercase());
    let option = text.match_indices("--").any(|(at, dashes)| {
        let is_inside = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        !is_inside && begins_with_letter(&text[at + dashes.len()..])
    });
    option || text.split("tfr-sql ").skip(1).any(begins_with_letter)
}

/// The files of a crate that are not for tests alone, by their modules.
fn sources(krate: &Path) -> BTreeMap<Module, Source> {
    let src = krate.join("src");
    let root = ["lib.rs", "main.rs"].map(|name| src.join(name)).into_iter().find(|root| root.exists());
    let mut sources = BTreeMap::from([(Module::new(), Source::read(root.unwrap(), &[]))]);
    let mut found = sources[&Module::new()].modules.clone();
    while let Some(module) = found.pop() {
        let stem = src.join(module.join("/"));
        let file = [stem.with_extension("rs"), stem.join("mod.rs")].into_iter().find(|file| file.exists());
        let source = Source::read(file.unwrap_or_else(|| panic!("no file of {}", stem.display())), &module);
        found.extend(source.modules.clone());
        sources.insert(module, source);
    }
    sources
}

/// The files that import each other, in groups. What a crate's root hands on belongs to no file.
fn cycles(sources: &BTreeMap<Module, Source>) -> Vec<Vec<String>> {
    let file_of = |path: &Module| {
        let of_len = (1..=path.len()).rev().map(|len| &path[..len]);
        of_len.into_iter().find(|module| sources.contains_key(*module)).map(<[String]>::to_vec)
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = sources
        .keys()
        .map(|module| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![module.clone()]);
            while let Some(from) = next.pop() {
                let files = sources[&from].paths.iter().filter_map(file_of).filter(|file| *file != from);
                next.extend(files.filter(|file| reached.insert(file.clone())));
            }
            (module, reached)
        })
        .collect();
    let group = |module: &&Module| {
        let both_ways = reached[module].iter().filter(|other| reached[other].contains(*module));
        both_ways.map(|module| module.join("::")).collect::<Vec<_>>()
    };
    let groups = reached.keys().map(group).filter(|group| !group.is_empty());
    groups.collect::<BTreeSet<_>>().into_iter().collect()
}

fn crates() -> BTreeMap<String, BTreeMap<Module, Source>> {
    let entries = fs::read_dir(repository().join("crates")).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), sources(&entry.path()))).collect()
}

#[test]
fn files_do_not_import_each_other_in_cycles() {
    let mut groups: BTreeMap<_, _> = crates().into_iter().map(|(name, sources)| (name, cycles(&sources))).collect();
    groups.retain(|_, groups| !groups.is_empty());
    assert_eq!(groups, BTreeMap::new(), "files in import cycles");
}

#[test]
fn files_are_short() {
    const MAX_LINES: usize = 600;
    for source in crates().into_values().flat_map(BTreeMap::into_values) {
        assert!(source.lines <= MAX_LINES, "{}: {} lines of at most {MAX_LINES}", source.path.display(), source.lines);
    }
}

#[test]
fn libraries_do_not_name_the_command() {
    let mut messages = BTreeMap::new();
    for (name, sources) in crates().into_iter().filter(|(name, _)| name != "tfr-sql") {
        messages.insert(name, sources.into_values().flat_map(|source| source.messages).collect::<Vec<_>>());
    }
    messages.retain(|_, messages| !messages.is_empty());
    assert_eq!(messages, BTreeMap::new(), "messages that name options or tools of the command");
}

/// The level of the last crate is that of the whole program's link-time optimization, which vectorizes no loop for size.
#[test]
fn programs_are_not_linked_for_size() {
    let manifest = fs::read_to_string(repository().join("Cargo.toml")).unwrap();
    let (_, levels) = manifest.split_once("[profile.release.package]").unwrap();
    let small = levels.lines().take_while(|line| !line.starts_with('[')).filter(|line| line.contains("opt-level"));
    let small: BTreeSet<_> = small.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(small.contains("sqlparser") && !manifest.contains("[profile.release.package.tfr-"), "{small:?}");
    for program in ["tfr-sql", "tfr-python"] {
        assert!(!small.contains(program), "{program}");
    }
}
