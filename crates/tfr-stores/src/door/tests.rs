use std::os::unix::fs::symlink;

use tempfile::{TempDir, tempdir};

use super::*;

/// A directory with `in/` and `out/`, each with a file, and the door to `in/`.
fn place() -> (TempDir, PathBuf, Door) {
    let dir = tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    for name in ["in", "out"] {
        fs::create_dir(root.join(name)).unwrap();
        fs::write(root.join(name).join("a.csv"), name).unwrap();
    }
    let door = Door::to(&[root.join("in").to_str().unwrap().to_owned()]).unwrap();
    (dir, root, door)
}

#[test]
fn door_resolves_links_and_parents() {
    let (_dir, root, door) = place();
    symlink(root.join("in"), root.join("to_in")).unwrap();
    symlink("../out", root.join("in/to_out")).unwrap();
    symlink("../in/a.csv", root.join("in/around.csv")).unwrap();
    symlink("loop", root.join("in/loop")).unwrap();
    let check = |path: &str| door.check_path(&root.join(path));
    let inside = root.join("in/a.csv");
    for path in ["in/a.csv", "to_in/a.csv", "in/../in/a.csv", "in/./a.csv", "in/around.csv", "out/../to_in/a.csv"] {
        assert_eq!(check(path).unwrap(), inside, "{path}");
    }
    assert_eq!(check("in/new/b.csv").unwrap(), root.join("in/new/b.csv"), "a file that does not exist");
    for path in [
        "out/a.csv",
        "in/../out/a.csv",
        "in/to_out/a.csv",
        "in/to_out/new",
        "in/loop",
        "in/none/../a.csv",
        "inside",
        "",
    ] {
        assert!(check(path).is_err(), "{path}");
    }
}

#[test]
fn refusal_tells_where_a_link_leads_only_if_the_link_is_inside() {
    let (_dir, root, door) = place();
    symlink("../out/a.csv", root.join("in/link.csv")).unwrap();
    symlink("a.csv", root.join("out/link.csv")).unwrap();
    let target = |path: &str| match door.check_path(&root.join(path)).unwrap_err().into_kind() {
        ErrorKind::NotAllowed { target, .. } => target,
        kind => panic!("{kind}"),
    };
    assert_eq!(target("in/link.csv"), Some(root.join("out/a.csv")));
    assert_eq!(target("out/link.csv"), None);
    assert_eq!(target("out/none.csv"), None);
}

#[test]
fn opened_file_is_the_one_that_was_compared() {
    let (_dir, root, door) = place();
    assert!(door.open(&root.join("in/a.csv")).is_ok());
    assert!(door.open(&root.join("out/a.csv")).is_err());
    // A link that takes the place of the file after the comparison.
    let resolved = door.check_path(&root.join("in/a.csv")).unwrap();
    fs::remove_file(&resolved).unwrap();
    symlink("../out/a.csv", &resolved).unwrap();
    assert!(open_resolved(&resolved).is_err());
}

#[test]
fn links_anywhere_below_an_output_are_compared() {
    let (_dir, root, door) = place();
    fs::create_dir_all(root.join("in/set/dt=1/x")).unwrap();
    symlink("..", root.join("in/set/dt=1/x/back")).unwrap();
    assert!(door.check_tree(&root.join("in/set")).is_ok());
    assert!(door.check_tree(&root.join("in/new")).is_ok());
    symlink(root.join("out"), root.join("in/set/dt=1/x/far")).unwrap();
    assert!(door.check_tree(&root.join("in/set")).is_err());
    assert!(door.check_tree(&root.join("out")).is_err());
}

#[test]
fn each_list_must_allow_a_name() {
    let (_dir, root, door) = place();
    let wide = Door::to(&[root.to_str().unwrap().to_owned()]).unwrap();
    for both in [door.and(&wide), wide.and(&door)] {
        assert!(both.check_path(&root.join("in/a.csv")).is_ok());
        assert!(both.check_path(&root.join("out/a.csv")).is_err());
        assert_eq!(both.paths(), [root.join("in")]);
    }
    assert!(Door::default().check_path(&root.join("out/a.csv")).is_ok());
    let nothing = Door::to(&[]).unwrap();
    assert!(nothing.check_path(&root.join("in/a.csv")).is_err());
    assert!(nothing.check_standard_input().is_err());
}

#[test]
fn urls_are_compared_by_store_and_names_of_the_key() {
    let entries = ["s3a://bucket/data/", "https://Host:443/pub", "az://files@account/x"];
    let door = Door::to(&entries.map(str::to_owned)).unwrap();
    let check = |text: &str| door.check_location(&Location::parse(text).unwrap());
    for url in ["s3://bucket/data/a.csv", "https://host/pub/a.csv", "https://u:p@host/pub/a?sig=1", "https://host/pub"]
    {
        let location = Location::parse(url);
        assert!(location.is_err() || check(url).is_ok(), "{url}");
    }
    let outside = [
        "s3://bucket/database/a.csv",
        "s3://bucket/",
        "s3://bucket2/data/a.csv",
        "gs://bucket/data/a.csv",
        "https://host/public/a.csv",
        "https://host/pub/../a.csv",
        "https://host/pub/%2e%2e/a.csv",
        "https://host:8443/pub/a.csv",
        "http://host/pub/a.csv",
        "https://host.evil.example/pub/a.csv",
        "https://host@evil.example/pub/a.csv",
        "s3://bucket/*/a.csv",
        "file:///etc/passwd",
    ];
    for url in outside {
        assert!(check(url).is_err(), "{url}");
    }
    assert!(door.check_redirect(&Url::parse("https://host/pub/b.csv").unwrap()).is_ok());
    for url in ["https://host/b.csv", "http://host/pub/b.csv", "http://169.254.169.254/", "https://host/pub%2F..%2Fb"] {
        assert!(door.check_redirect(&Url::parse(url).unwrap()).is_err(), "{url}");
    }
}

#[test]
fn entries_must_exist() {
    let (_dir, root, _) = place();
    assert!(Door::to(&[root.join("none").to_str().unwrap().to_owned()]).is_err());
    assert!(Door::to(&["s3://user:password@bucket/".to_owned()]).is_err());
}
