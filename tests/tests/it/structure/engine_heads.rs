//! The heads of `tfr-engine`'s modules say what becomes of them when the engine changes, and which test holds them.

use std::fs;

use tfr_tests::repository;

#[test]
fn engine_modules_name_their_upstream_issue_and_their_test() {
    let root = repository();
    let src = root.join("crates/tfr-engine/src");
    let entries = fs::read_dir(src).unwrap().map(|entry| entry.unwrap().path());
    let modules = entries.filter_map(|path| match path.is_dir() {
        true => Some(path.join("mod.rs")).filter(|head| head.exists()),
        false => {
            Some(path).filter(|file| file.extension().is_some_and(|ending| ending == "rs") && !file.ends_with("lib.rs"))
        }
    });
    let mut count = 0;
    for module in modules {
        let text = fs::read_to_string(&module).unwrap();
        let mut heads = text.lines().filter_map(|line| line.strip_prefix("//! Upstream: "));
        let (Some(head), None) = (heads.next(), heads.next()) else {
            panic!("{}: one line Upstream", module.display())
        };
        let (reason, test) = head.split_once(". Held by ").unwrap_or((head, ""));
        let is_known = ["apache/datafusion#", "ours (", "unreported"].iter().any(|known| reason.starts_with(known));
        assert!(is_known, "{}: {reason}", module.display());
        if let Some((file, section)) = test.strip_prefix('`').and_then(|test| test.split_once("`: ")) {
            let sections = fs::read_to_string(root.join(file)).unwrap();
            let heading = format!("# {section}");
            assert!(sections.lines().any(|line| line.starts_with(&heading)), "{}: {test}", module.display());
        }
        count += 1;
    }
    assert!(count > 50, "{count} modules");
}
