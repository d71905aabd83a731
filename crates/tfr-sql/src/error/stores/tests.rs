use tfr_stores::Answer;

use super::*;

#[test]
fn store_errors_have_hints() {
    let store = || "s3://bucket".to_owned();
    let settings = |service, problem| ErrorKind::Settings { store: store(), service, problem };
    let hints: Vec<_> = [
        ErrorKind::UnknownScheme { scheme: "s4".to_owned() },
        ErrorKind::LeftOut { store: store() },
        settings(Service::S3, SettingsProblem::ProfileWithoutKeys { way: "a login (sso_session)" }),
        settings(Service::S3, SettingsProblem::Endpoint("localhost:9000".into())),
        settings(Service::Azure, SettingsProblem::AccountKey),
        settings(Service::Azure, SettingsProblem::ContainerName { name: "c".to_owned() }),
        settings(Service::Azure, SettingsProblem::Other("Account must be specified".to_owned())),
        settings(Service::Gcs, SettingsProblem::Other("no file".to_owned())),
        ErrorKind::NoCredentials { store: store(), service: Service::S3, reason: "none".to_owned() },
        ErrorKind::Denied { store: store(), service: Service::Http, answer: Answer::default() },
        ErrorKind::NoBucket { store: store(), answer: Answer::default() },
        ErrorKind::OtherRegion { store: store(), region: "eu-west-1".to_owned() },
        ErrorKind::Unreachable { store: store(), service: Service::S3, reason: "refused".to_owned() },
        ErrorKind::Unreachable { store: store(), service: Service::Hdfs, reason: "refused".to_owned() },
        ErrorKind::BeingWritten { store: store(), path: "/a".to_owned() },
        settings(Service::Hdfs, SettingsProblem::UserOfHdfs),
        ErrorKind::Denied { store: store(), service: Service::Hdfs, answer: Answer::default() },
        ErrorKind::NoParts { store: store() },
        ErrorKind::NoListing { store: store(), answer: Answer::default() },
    ]
    .map(|kind| hint(&kind.into()).unwrap())
    .into();
    insta::assert_snapshot!(hints.join("\n"), @r#"
    known are file://, s3://, gs://, az://, abfss://, http://, https:// and hdfs://
    build tfr-sql with its default features
    put them into the environment: eval "$(aws configure export-credentials --format env)"
    write it as http://host:9000 or https://host
    set AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_KEY, or AccountKey in the connection string) to all of the key, with the = at its end; a shared access signature goes into AZURE_STORAGE_SAS_TOKEN
    write the URL as az://container/path or abfss://container@account.dfs.core.windows.net/path
    set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or AZURE_SKIP_SIGNATURE=true for public data
    set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or GOOGLE_SKIP_SIGNATURE=true for public data
    set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for public data
    check that the credentials are the right ones and may do this: credentials of a web server stand in the URL: https://user:password@host/file.csv
    check the name, and the endpoint if it is not the usual one
    set AWS_REGION=eu-west-1
    check the endpoint, the network and the proxy settings
    check the name and the port of the namenode, and set HADOOP_CONF_DIR if it is the name of a service
    wait until its writer closes it, or name the other files; hdfs debug recoverLease closes one that was left
    leave it out, and set HADOOP_USER_NAME to read as another user
    check that the credentials are the right ones and may do this: set HADOOP_CONF_DIR to the directory of the cluster's core-site.xml and hdfs-site.xml, and HADOOP_USER_NAME or, with Kerberos, run kinit
    download the file and name the copy
    name the files themselves: over http only WebDAV servers list
    "#);
}
