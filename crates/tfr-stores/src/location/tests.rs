use super::*;

#[test]
fn location_names_relative_files_as_given() -> Result<()> {
    let location = Location::parse("./data//x=1/*.csv")?;
    let file = Path::parse(format!("{}/a b.csv", location.prefix)).expect("a path");
    assert_eq!(location.file_names().name(&file), "data/x=1/a b.csv");
    assert_eq!(location.file_names().name(&Path::from("elsewhere/f")), "/elsewhere/f");
    let location = Location::parse("/data/f")?;
    assert_eq!(location.file_names().name(&location.prefix), "/data/f");
    Ok(())
}

#[test]
fn location_splits_urls_into_store_prefix_and_pattern() -> Result<()> {
    for (text, store, prefix, patterns) in [
        ("file:///a%20b/c?.csv", "file:///", "a b", 1),
        ("file:///a/b", "file:///", "a/b", 0),
        ("s3://bucket/dt=1/**/x.parquet", "s3://bucket/", "dt=1", 2),
        ("/C:/odd", "file:///", "C:/odd", 0),
    ] {
        let location = Location::parse(text)?;
        assert_eq!(location.object_store().as_str(), store, "{text}");
        assert_eq!(location.prefix.as_ref(), prefix, "{text}");
        assert_eq!(location.pattern.len(), patterns, "{text}");
        assert_eq!(location.to_string(), text);
    }
    let location = Location::parse("s3://bucket/a/b")?;
    assert_eq!(location.file_names().name(&location.prefix), "s3://bucket/a/b");
    Ok(())
}

#[test]
fn unusable_texts_are_refused() {
    for (text, reason) in [
        ("", "'': not a usable path: it is empty"),
        ("/a/[x", "/a/[x: not a usable path: pattern \"[x\": invalid range pattern"),
        ("file://host/x", "file://host/x: not a usable path: a file URL has no host and an absolute path"),
    ] {
        assert_eq!(Location::parse(text).expect_err(text).to_string(), reason);
    }
}

#[test]
fn location_takes_and_shows_store_keys_verbatim() -> Result<()> {
    for (text, key) in [
        ("s3://b/dt=10%3A30/a b#1.csv", "dt=10%3A30/a b#1.csv"),
        ("gs://b/x=é/%25", "x=é/%25"),
        ("s3a://My_Bucket/a//b/", "a/b"),
        ("abfss://files@account.dfs.core.windows.net/a=b", "a=b"),
        ("hdfs://namenode:8020/user/x", "user/x"),
        ("s3://b", ""),
    ] {
        let location = Location::parse(text)?;
        assert_eq!(location.literal.as_ref(), key, "{text}");
        assert_eq!(location.to_string(), text);
        let name = location.file_names().name(&location.literal);
        assert_eq!(Location::parse(&name)?.literal, location.literal, "{name} is the same file");
    }
    assert_eq!(Location::parse("s3a://b/x")?.object_store(), Location::parse("s3://b/y")?.object_store());
    let names = Location::parse("abfss://files@account.dfs.core.windows.net/")?.file_names().clone();
    assert_eq!(names.name(&Path::from("x")), "abfss://files@account.dfs.core.windows.net/x");
    Ok(())
}

#[test]
fn location_decodes_web_urls_and_hides_their_query() -> Result<()> {
    let location = Location::parse("https://host:81/a%20b/c.csv?X-Amz-Signature=s%2F1&x=+#part")?;
    assert_eq!(location.literal.as_ref(), "a b/c.csv");
    assert_eq!(location.to_string(), "https://host:81/a%20b/c.csv?***");
    assert_eq!(location.file_names().name(&location.literal), "https://host:81/a%20b/c.csv");
    let store: &Url = location.object_store().as_ref();
    assert_eq!(store.host_str(), Some("host"));
    assert_eq!(query_of_store(store).as_deref(), Some("X-Amz-Signature=s%2F1&x=+"));

    let location = Location::parse("http://me:pw@host/dir/")?;
    assert_eq!(location.to_string(), "http://***@host/dir/");
    assert_eq!(location.object_store().as_str(), "http://me:pw@host/");
    assert_eq!(query_of_store(location.object_store().as_ref()), None);
    assert!(location.is_directory);
    assert_ne!(
        Location::parse("http://host/f?a=1")?.object_store(),
        Location::parse("http://host/f?a=2")?.object_store()
    );
    Ok(())
}

#[test]
fn location_rejects_credentials_in_store_urls() {
    for (text, shown) in [
        ("s3://key:secret@b/x", "s3://***@b/x"),
        ("s3://key:sec/ret@b/x", "s3://***@b/x"),
        ("s3://b/x?X-Amz-Signature=secret", "s3://b/x?***"),
        ("abfss://files@account/x?sv=1&sig=secret", "abfss://files@account/x?***"),
    ] {
        let message = Location::parse(text).expect_err("refused").to_string();
        assert!(message.starts_with(&format!("{shown}: not a usable path: ")), "{message}");
        assert!(!message.contains("secret"), "{message}");
    }
    let location = Location::parse("https://me:pw@host/f").expect("a location");
    assert_eq!(format!("{location:?}"), "Location(\"https://***@host/f\")");
}
