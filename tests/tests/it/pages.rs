//! The README and the guide: links lead somewhere, every page and option is listed, and the examples run.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tfr_tests::{Scratch, repository, run, tfr_sql};

/// A fenced block: what follows the backticks, and the lines.
struct Block {
    language: String,
    text: String,
}

/// The text of a page outside of its fenced blocks, and these.
fn read(page: &Path) -> (String, Vec<Block>) {
    let (mut prose, mut blocks, mut open) = (String::new(), Vec::new(), None::<Block>);
    for line in fs::read_to_string(repository().join(page)).unwrap().lines() {
        match (line.trim_start().strip_prefix("```"), open.take()) {
            (Some(language), None) => open = Some(Block { language: language.to_owned(), text: String::new() }),
            (Some(_), Some(block)) => blocks.push(block),
            (None, Some(mut block)) => {
                block.text += &format!("{line}\n");
                open = Some(block);
            }
            (None, None) => prose += &format!("{line}\n"),
        }
    }
    assert!(open.is_none(), "{}: a block without an end", page.display());
    (prose, blocks)
}

/// The pages of the guide, by their paths from the repository's root.
fn guide() -> Vec<PathBuf> {
    let mut pages: Vec<_> = fs::read_dir(repository().join("docs"))
        .unwrap()
        .map(|entry| Path::new("docs").join(entry.unwrap().file_name()))
        .filter(|page| page.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// The targets of the links and images in a page's prose.
fn links(prose: &str) -> Vec<String> {
    // every other part between backticks is code
    let text: String = prose.split('`').step_by(2).collect();
    let targets = text.split("](").skip(1);
    targets.map(|rest| rest.split_once(')').expect("a link has an end").0.to_owned()).collect()
}

/// The anchors of a page's headings, as forges and mdBook form them.
fn anchors(prose: &str) -> Vec<String> {
    let headings = prose.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    headings.map(|heading| heading.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")).collect()
}

#[test]
fn page_links_have_targets() {
    let mut pages: Vec<_> =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"].map(PathBuf::from).into();
    pages.extend(guide());
    let anchors: BTreeMap<_, _> = pages.iter().map(|page| (page.clone(), anchors(&read(page).0))).collect();
    let mut broken = Vec::new();
    for page in &pages {
        for link in links(&read(page).0).iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match path {
                "" => page.clone(),
                path => page.with_file_name(path),
            };
            let known = anchor.is_empty() || anchors.get(&target).is_some_and(|all| all.iter().any(|a| a == anchor));
            // A page of the guide's web site sees nothing outside of the guide.
            let inside = !page.starts_with("docs") || !path.contains("..");
            if !(known && inside && repository().join(&target).exists()) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn summary_lists_every_page() {
    let mut listed = links(&read(Path::new("docs/SUMMARY.md")).0);
    listed.push("SUMMARY.md".to_owned());
    listed.sort();
    let pages: Vec<_> = guide().iter().map(|page| page.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    assert_eq!(listed, pages);
}

#[test]
fn options_page_lists_every_option() {
    let help = run(tfr_sql().arg("--help")).success().stdout;
    let page = fs::read_to_string(repository().join("docs/options.md")).unwrap();
    let options: Vec<_> = help
        .lines()
        .filter(|line| line.trim_start().starts_with('-') && line.len() - line.trim_start().len() <= 6)
        .filter_map(|line| line.split([' ', ',', '.']).find(|word| word.starts_with("--")))
        .collect();
    assert!(options.contains(&"--out") && options.contains(&"--verbose"), "{options:?}");
    let missing: Vec<_> = options.iter().filter(|option| !page.contains(&format!("`{option}"))).collect();
    assert!(missing.is_empty(), "not in docs/options.md: {missing:?}");
}

/// `sh` blocks succeed, and the commands of `console` blocks print what is shown; `CONTRIBUTING.md` has the rules.
#[test]
fn examples_run() {
    let mut pages = guide();
    pages.push("README.md".into());
    let mut commands = 0;
    for page in pages {
        let scratch = Scratch::default();
        symlink(repository().join("examples"), scratch.join("examples")).unwrap();
        for Block { language, text } in read(&page).1 {
            let shown: Vec<(String, Option<&str>)> = match language.as_str() {
                "sh" => vec![(text, None)],
                "console" => text
                    .split("$ ")
                    .skip(1)
                    .map(command_and_output)
                    .map(|(command, output)| (command.to_owned(), Some(output)))
                    .collect(),
                _ => continue,
            };
            for (command, output) in shown {
                let finished = run(&mut shell(&command, scratch.path())).success();
                commands += 1;
                if let Some(output) = output {
                    assert_eq!(finished.stdout, output, "{}: {command}", page.display());
                }
            }
        }
    }
    assert!(commands > 10, "{commands} commands");
}

/// A command, which continues after a line that ends with `\`, and the lines after it.
fn command_and_output(step: &str) -> (&str, &str) {
    let mut ends = step.match_indices('\n').map(|(end, _)| end);
    let end = ends.find(|end| !step[..*end].ends_with('\\')).expect("a command has an end");
    (&step[..end], &step[end + 1..])
}

/// A shell in `dir` that runs a page's commands with the program under test.
fn shell(commands: &str, dir: &Path) -> Command {
    let program = tfr_sql();
    let programs = Path::new(program.get_program()).parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([programs].into_iter().chain(env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-ec", &commands.replace("cargo run --bin tfr-sql --", "tfr-sql")]);
    shell.current_dir(dir).env("PATH", path).stdin(Stdio::null());
    shell
}
