use super::*;

fn group(column: &str, value: &str) -> ShardGroup {
    ShardGroup { partition_values: vec![(column.to_owned(), Some(value.to_owned()))], split: None }
}

/// Hive 4's output of `FileUtils.escapePathName` for each ASCII character that it escapes.
#[test]
fn ascii_is_escaped_as_by_hive() {
    let kept = " !$&()+,-.0123456789;<>@ABCDEFGHIJKLMNOPQRSTUVWXYZ_`abcdefghijklmnopqrstuvwxyz|}~";
    for byte in 0..=0x7f_u8 {
        let character = char::from(byte);
        let expected = if kept.contains(character) { character.to_string() } else { format!("%{byte:02X}") };
        assert_eq!(group("c", &character.to_string()).directory(), format!("c={expected}"));
        assert_eq!(group(&character.to_string(), "v").directory(), format!("{expected}=v"));
    }
    assert_eq!(group("größe", "日本/語 é").directory(), "größe=日本%2F語 é");
}

#[test]
fn group_directory_of_null_and_empty_text_is_the_default() {
    for value in [None, Some(String::new()), Some(NULL_PARTITION.to_owned())] {
        let group = ShardGroup { partition_values: vec![("dt".to_owned(), value)], split: None };
        assert_eq!(group.directory(), "dt=__HIVE_DEFAULT_PARTITION__");
    }
}

#[test]
fn group_rejects_values_that_cannot_name_a_directory() {
    for column in ["", ".hidden"] {
        let error = group(column, "v").check().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::PartitionName { .. }), "{error}");
    }
    group("c", &"x".repeat(253)).check().unwrap();
    // An escaped character counts as three bytes.
    for value in ["x".repeat(254), "/".repeat(85), "é".repeat(127)] {
        let error = group("c", &value).check().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::LongName { limit: 255, found: 256.., .. }), "{error}");
        assert!(error.to_string().len() < 200, "{error}");
    }
    let deep =
        |count| ShardGroup { partition_values: vec![("c".to_owned(), Some("x".repeat(253))); count], split: None };
    deep(3).check().unwrap();
    let error = deep(4).check().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::LongName { limit: 767, .. }), "{error}");
}
