use super::*;

fn url(text: &str) -> Url {
    Url::parse(text).expect("a URL")
}

fn stores() -> Stores {
    let environment = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "hunter2"),
        ("AWS_CONFIG_FILE", "/none"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/none"),
        ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
        ("AZURE_STORAGE_ACCOUNT_KEY", "aHVudGVyMg=="),
        ("GOOGLE_SKIP_SIGNATURE", "true"),
    ];
    Stores::new(StoreOptions { environment: environment.into(), ..StoreOptions::default() })
}

#[test]
fn server_of_a_store_follows_the_settings() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = |name, value| {
        let keys = [("AWS_CONFIG_FILE", "/none"), ("AWS_SHARED_CREDENTIALS_FILE", "/none"), (name, value)];
        let stores = Stores::new(StoreOptions { environment: keys.into(), ..StoreOptions::default() });
        let url = url(if name.starts_with("AZURE") { "az://container/" } else { "s3://bucket/" });
        stores.server(&url)
    };
    assert_eq!(server("AWS_ENDPOINT_URL", "http://one:1")?, "http://one:1");
    assert_eq!(server("AWS_ENDPOINT_URL_S3", "http://two:1")?, "http://two:1");
    assert_eq!(server("AWS_REGION", "eu-west-1")?, "eu-west-1");
    assert_ne!(server("AZURE_STORAGE_ACCOUNT_NAME", "one")?, server("AZURE_STORAGE_ACCOUNT_NAME", "two")?);
    Ok(())
}

#[test]
fn a_store_is_built_once_and_shows_no_secret() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let stores = stores();
    for (text, same, other, uploads) in [
        ("s3://bucket/a", "s3://bucket/b/c", "s3://other/a", true),
        ("s3a://bucket/a", "s3a://bucket/", "s3://bucket/", true),
        ("gs://bucket/a", "gs://bucket/b", "gs://other/", true),
        ("az://container/a", "az://container/b", "az://other/", true),
        (
            "abfss://files@account.dfs.core.windows.net/a",
            "abfss://files@account.dfs.core.windows.net/",
            "az://files/",
            true,
        ),
        ("https://me:hunter2@host/f", "https://me:hunter2@host/g", "https://host/f", false),
    ] {
        let first = stores.get(&url(text))?;
        assert!(Arc::ptr_eq(&first, &stores.get(&url(same))?), "{text}");
        assert!(!Arc::ptr_eq(&first, &stores.get(&url(other))?), "{text}");
        let root = StoreUrl::parse(&url(text)[..Position::BeforePath])?;
        assert_eq!(stores.uploads().get(&root).is_some(), uploads, "{text}");
        let shown = format!("{first} {first:?} {stores:?}");
        assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg"), "{shown}");
    }
    Ok(())
}

#[test]
fn store_error_explains_invalid_settings() {
    let stores = Stores::new(StoreOptions {
        s3_endpoint: Some("localhost:9000".to_owned()),
        environment: [("AWS_CONFIG_FILE", "/none"), ("GOOGLE_APPLICATION_CREDENTIALS", "/none/adc.json")].into(),
        ..StoreOptions::default()
    });
    let message_of = |text: &str| stores.get(&url(text)).expect_err(text).to_string();
    assert_eq!(message_of("s4://bucket/"), "unsupported URL scheme \"s4\"");
    assert_eq!(message_of("s3://bucket/"), "s3://bucket: the endpoint is not a URL of a server: localhost:9000");
    assert_eq!(message_of("az://container/"), "az://container: Account must be specified");
    for (text, name) in [
        ("az://c/", "c"),
        ("abfss://c@account.dfs.core.windows.net/x", "c"),
        ("az://Files/", "Files"),
        ("az://a--b/", "a--b"),
        ("az://my_files/", "my_files"),
    ] {
        let message = message_of(text);
        assert!(
            message.contains(&format!("{name:?} is not a valid name of a container: expected 3 to 63 ")),
            "{message}"
        );
    }
    let message = message_of("gs://bucket/");
    assert!(message.starts_with("gs://bucket: "), "{message}");
}

#[test]
fn azure_key_error_does_not_show_the_key() {
    for name in ["AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_KEY"] {
        let environment = [("AZURE_STORAGE_ACCOUNT", "account"), (name, "hunter2-hunter2-hunter2")].into();
        let error = Stores::new(StoreOptions { environment, ..StoreOptions::default() }).get(&url("az://files/"));
        let error = error.expect_err("no base64");
        assert_eq!(error.to_string(), "az://files: the account key is not base64");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[test]
fn store_error_names_the_variable_and_hides_its_value() {
    let environment = Environment::from([("AWS_ACCESS_KEY_ID", "sec\nret"), ("AWS_REGION", "us-east-1")]);
    let options = StoreOptions { environment, ..StoreOptions::default() };
    let error = Stores::new(options).get(&url("s3://bucket/")).expect_err("two lines").to_string();
    assert!(error.contains("AWS_ACCESS_KEY_ID contains a line end") && !error.contains("ret\""), "{error}");
    assert!(!error.contains("sec"), "{error}");
}

#[cfg(not(feature = "hdfs"))]
#[test]
fn hdfs_url_is_rejected_without_the_feature() {
    let error = stores().get(&url("hdfs://namenode:8020/")).expect_err("left out");
    assert_eq!(error.to_string(), "hdfs://namenode:8020 needs HDFS, which this build does not include");
}

#[cfg(feature = "hdfs")]
#[test]
fn hdfs_is_built_by_the_name_of_its_node_or_service() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let stores = stores();
    for text in ["hdfs://namenode:8020/user/x", "hdfs://node/"] {
        let store = stores.get(&url(text))?;
        assert_eq!(store.to_string(), text.trim_end_matches("/user/x").trim_end_matches('/'));
        // Whoever writes there finds both: shards are uploaded to a directory, which is renamed.
        let root = StoreUrl::parse(&url(text)[..Position::BeforePath])?;
        assert!(stores.uploads().get(&root).is_some() && stores.uploads().directories(&root).is_some());
    }
    Ok(())
}
