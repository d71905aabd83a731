//! Lines of code by folder, without blank lines, comments and tests: `tests/run -E 'test(lines_of_code)' --no-capture`.

use std::collections::BTreeMap;
use std::fs;

use tfr_tests::repository;

use super::crates;

#[test]
fn lines_of_code_are_printed_by_folder() {
    let root = repository().join("crates");
    let mut folders: BTreeMap<String, usize> = BTreeMap::new();
    for source in crates().into_values().flat_map(BTreeMap::into_values) {
        let file = source.path.strip_prefix(&root).unwrap().display().to_string().replace("/src/", "/");
        let text = fs::read_to_string(&source.path).unwrap();
        let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default().lines().map(str::trim);
        let code = code.filter(|line| !line.is_empty() && !line.starts_with("//")).count();
        // A module is the file and the folder of its name.
        let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').take(2).collect();
        *folders.entry(parts.join("/")).or_default() += code;
        *folders.entry(parts[0].to_owned()).or_default() += code;
    }
    let total: usize = folders.iter().filter(|(folder, _)| !folder.contains('/')).map(|(_, lines)| lines).sum();
    for (folder, lines) in &folders {
        println!("{lines:>7}  {folder}");
    }
    println!("{total:>7}  all");
    assert!(folders.contains_key("tfr-arrow/nested") && total > 50_000, "{total} lines");
}
