//! Cloud stores configured by the environment: S3, Google Cloud Storage and Azure.

use std::str::FromStr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder, GoogleConfigKey};
use url::Url;

use crate::connection::{client_options, retries};
use crate::door::Door;
use crate::environment::Environment;
use crate::error::SettingsProblem;
use crate::profile::Profile;
use crate::service::Service;
use crate::wire::{Wire, innermost};

/// A store, with its endpoint and the source of its credentials for messages.
pub(crate) struct Built<S> {
    pub(crate) store: S,
    pub(crate) summary: String,
    /// What answers at the URL, as far as the settings determine that: see [`Stores::server`](crate::Stores::server).
    pub(crate) server: String,
}

/// Converts an error of a client's builder about its settings.
impl From<object_store::Error> for SettingsProblem {
    fn from(error: object_store::Error) -> Self {
        innermost(&error).into()
    }
}

type BuildResult<S> = Result<Built<S>, SettingsProblem>;

/// Creates the store of an `s3` URL. The endpoint is the first of `endpoint`, `AWS_ENDPOINT_URL_S3`,
/// `AWS_ENDPOINT_URL` and the profile's. Keys are taken from the environment, then the profile, then those provided
/// to the machine.
pub(crate) fn s3(url: &Url, endpoint: Option<&str>, environment: &Environment, door: &Door) -> BuildResult<AmazonS3> {
    let mut builder = AmazonS3Builder::new()
        .with_url(url.as_str())
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Wire::new(Service::S3, door));
    for (name, value) in environment.with_prefix("AWS_") {
        if let Ok(key) = AmazonS3ConfigKey::from_str(&name) {
            builder = builder.with_config(key, value);
        }
    }
    let is_set = |builder: &AmazonS3Builder, key| builder.get_config_value(&key).is_some();
    let given = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::WebIdentityTokenFile,
        AmazonS3ConfigKey::ContainerCredentialsRelativeUri,
        AmazonS3ConfigKey::ContainerCredentialsFullUri,
    ];
    let unsigned = is_true(builder.get_config_value(&AmazonS3ConfigKey::SkipSignature));
    let profile = Profile::read(environment)?;
    let credentials = if unsigned {
        "none, requests are not signed"
    } else if given.into_iter().any(|key| is_set(&builder, key)) {
        "credentials of the environment"
    } else if let (Some(id), Some(secret)) = (profile.get("aws_access_key_id"), profile.get("aws_secret_access_key")) {
        builder = builder.with_access_key_id(id).with_secret_access_key(secret);
        if let Some(token) = profile.get("aws_session_token") {
            builder = builder.with_token(token);
        }
        "credentials of the profile"
    } else if let Some(way) = profile.other_way() {
        return Err(SettingsProblem::ProfileWithoutKeys { way });
    } else {
        "credentials of the machine"
    };
    if let Some(region) = profile.get("region")
        && !is_set(&builder, AmazonS3ConfigKey::Region)
    {
        builder = builder.with_region(region);
    }
    let in_environment = || {
        [AmazonS3ConfigKey::S3Endpoint, AmazonS3ConfigKey::Endpoint]
            .iter()
            .find_map(|key| builder.get_config_value(key))
    };
    let endpoint =
        endpoint.map(str::to_owned).or_else(in_environment).or_else(|| profile.get("endpoint_url").map(str::to_owned));
    if let Some(endpoint) = &endpoint {
        let url = endpoint_url(endpoint)?;
        // Takes precedence over other endpoints.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
        builder = builder.with_allow_http(url.scheme() == "http");
    }
    let region = builder.get_config_value(&AmazonS3ConfigKey::Region).unwrap_or_else(|| "us-east-1".to_owned());
    let summary = format!("{}, region {region}, {credentials}", endpoint.as_deref().unwrap_or("AWS"));
    Ok(Built { store: builder.build()?, summary, server: endpoint.unwrap_or(region) })
}

/// A service account without a key, whose requests have an empty token.
const NOBODY: &str = r#"{"client_email": "", "private_key": "", "private_key_id": "", "disable_oauth": true}"#;

/// Creates the store of a `gs` URL. `STORAGE_EMULATOR_HOST` works as in Google's clients.
pub(crate) fn gcs(url: &Url, environment: &Environment, door: &Door) -> BuildResult<GoogleCloudStorage> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_bucket_name(url.host_str().unwrap_or_default())
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Wire::new(Service::Gcs, door));
    for (name, value) in environment.with_prefix("GOOGLE_") {
        if let Ok(key) = GoogleConfigKey::from_str(&name) {
            builder = builder.with_config(key, value);
        }
    }
    let given =
        [GoogleConfigKey::ServiceAccount, GoogleConfigKey::ServiceAccountKey, GoogleConfigKey::ApplicationCredentials];
    let has_credentials = given.iter().any(|key| builder.get_config_value(key).is_some());
    if let Some(emulator) = environment.get("STORAGE_EMULATOR_HOST") {
        let base = if emulator.contains("://") { emulator.to_owned() } else { format!("http://{emulator}") };
        builder = builder.with_base_url(base.trim_end_matches('/')).with_config(GoogleConfigKey::SkipSignature, "true");
        if !has_credentials {
            // Multipart uploads require credentials all the same.
            builder = builder.with_service_account_key(NOBODY);
        }
    }
    let base = builder.get_config_value(&GoogleConfigKey::BaseUrl);
    if let Some(base) = &base {
        let is_plain = endpoint_url(base)?.scheme() == "http";
        builder = builder
            .with_config(GoogleConfigKey::Client(object_store::ClientConfigKey::AllowHttp), is_plain.to_string());
    }
    let unsigned = is_true(builder.get_config_value(&GoogleConfigKey::SkipSignature));
    let credentials = match has_credentials {
        _ if unsigned => "none, requests are not signed",
        true => "credentials of the environment",
        false => "default credentials, or those of the machine",
    };
    let summary = format!("{}, {credentials}", base.as_deref().unwrap_or("Google Cloud"));
    Ok(Built { store: builder.build()?, summary, server: base.unwrap_or_default() })
}

/// Creates the store of an `az` or `abfss` URL. In addition to the variables of `object_store`, those of Azure's own
/// tools are supported: `AZURE_STORAGE_ACCOUNT`, `AZURE_STORAGE_KEY` and `AZURE_STORAGE_CONNECTION_STRING`.
pub(crate) fn azure(url: &Url, environment: &Environment, door: &Door) -> BuildResult<MicrosoftAzure> {
    check_container(url)?;
    let mut builder = MicrosoftAzureBuilder::new()
        .with_url(url.as_str())
        .with_client_options(client_options())
        .with_retry(retries())
        .with_http_connector(Wire::new(Service::Azure, door));
    let mut settings: Vec<(AzureConfigKey, String)> = Vec::new();
    if let Some(text) = environment.get("AZURE_STORAGE_CONNECTION_STRING") {
        settings.extend(connection_string(text));
    }
    let of_tools = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("IDENTITY_ENDPOINT", AzureConfigKey::MsiEndpoint),
    ];
    settings.extend(of_tools.into_iter().filter_map(|(name, key)| Some((key, environment.get(name)?.to_owned()))));
    let named = environment.with_prefix("AZURE_");
    settings.extend(named.filter_map(|(name, value)| Some((AzureConfigKey::from_str(&name).ok()?, value.to_owned()))));
    for (key, value) in settings {
        builder = builder.with_config(key, value);
    }
    let endpoint = builder.get_config_value(&AzureConfigKey::Endpoint);
    if let Some(endpoint) = &endpoint {
        builder = builder.with_allow_http(endpoint_url(endpoint)?.scheme() == "http");
    }
    if builder.get_config_value(&AzureConfigKey::AccessKey).is_some_and(|key| BASE64_STANDARD.decode(key).is_err()) {
        return Err(SettingsProblem::AccountKey);
    }
    let is_set = |key| builder.get_config_value(&key).is_some();
    let credentials = if is_true(builder.get_config_value(&AzureConfigKey::SkipSignature)) {
        "none, requests are not signed"
    } else if [AzureConfigKey::AccessKey, AzureConfigKey::SasKey, AzureConfigKey::ClientSecret, AzureConfigKey::Token]
        .into_iter()
        .any(is_set)
    {
        "credentials of the environment"
    } else {
        "credentials of the machine"
    };
    let summary = format!("{}, {credentials}", endpoint.as_deref().unwrap_or("Azure"));
    let account = builder.get_config_value(&AzureConfigKey::AccountName).unwrap_or_default();
    let server = format!("{account} {}", endpoint.unwrap_or_default());
    Ok(Built { store: builder.build()?, summary, server })
}

/// Rejects an invalid container name, since the service would respond as if the credentials were wrong.
///
/// See "Naming and referencing containers, blobs, and metadata" of Azure's documentation.
fn check_container(url: &Url) -> Result<(), SettingsProblem> {
    let name = match (url.username(), url.host_str().unwrap_or_default()) {
        // An account's host; the container is in the path.
        ("", host) if host.contains('.') => return Ok(()),
        ("", host) => host,
        (name, _) => name,
    };
    let is_of_system = matches!(name, "$root" | "$web" | "$logs" | "$blobchangefeed");
    let is_usual = (3..=63).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--");
    if is_of_system || is_usual {
        return Ok(());
    }
    Err(SettingsProblem::ContainerName { name: name.to_owned() })
}

/// Parses `AccountName=a;AccountKey=k==;BlobEndpoint=http://host/a`.
fn connection_string(text: &str) -> impl Iterator<Item = (AzureConfigKey, String)> {
    text.split(';').filter_map(|pair| {
        let (name, value) = pair.trim().split_once('=')?;
        let key = match name.to_ascii_lowercase().as_str() {
            "accountname" => AzureConfigKey::AccountName,
            "accountkey" => AzureConfigKey::AccessKey,
            "sharedaccesssignature" => AzureConfigKey::SasKey,
            "blobendpoint" => AzureConfigKey::Endpoint,
            _ => return None,
        };
        Some((key, value.to_owned()))
    })
}

/// Same rule as the builders.
fn is_true(setting: Option<String>) -> bool {
    setting.is_some_and(|text| matches!(text.to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes" | "y"))
}

fn endpoint_url(text: &str) -> Result<Url, SettingsProblem> {
    let usable = Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.has_host() && url.username().is_empty() && url.query().is_none()
    });
    usable.ok_or_else(|| SettingsProblem::Endpoint(text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("a URL")
    }

    #[test]
    fn s3_endpoint_option_overrides_specific_and_general_variables() {
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "s3cret"), ("AWS_CONFIG_FILE", "/none")];
        let summary = |endpoint, more: [(&str, &str); 2]| {
            let all: [(&str, &str); 5] = [keys[0], keys[1], keys[2], more[0], more[1]];
            s3(&url("s3://b/"), endpoint, &all.into(), &Door::default())
                .map(|built| built.summary)
                .map_err(|problem| problem.to_string())
        };
        let both = [("AWS_ENDPOINT_URL", "http://general:1"), ("AWS_ENDPOINT_URL_S3", "http://special:1")];
        for (endpoint, more, expected) in [
            (Some("http://given:1"), both, "http://given:1, region us-east-1, credentials of the environment"),
            (None, both, "http://special:1, region us-east-1, credentials of the environment"),
            (
                None,
                [both[0], ("AWS_REGION", "eu-west-1")],
                "http://general:1, region eu-west-1, credentials of the environment",
            ),
            (None, [("AWS_SKIP_SIGNATURE", "true"), ("X", "")], "AWS, region us-east-1, none, requests are not signed"),
        ] {
            assert_eq!(summary(endpoint, more).as_deref(), Ok(expected));
        }
        let refused = summary(Some("localhost:9000"), both).expect_err("no URL of a server");
        assert_eq!(refused, "the endpoint is not a URL of a server: localhost:9000");
    }

    #[test]
    fn azure_store_reads_the_variables_of_azure_tools() {
        let text = "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey=c2VjcmV0;\
                    BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;";
        let built = azure(&url("az://files/"), &[("AZURE_STORAGE_CONNECTION_STRING", text)].into(), &Door::default())
            .expect("a store");
        assert_eq!(built.summary, "http://127.0.0.1:10000/devstoreaccount1, credentials of the environment");
        let problem = azure(&url("az://files/"), &Environment::default(), &Door::default()).err().expect("no account");
        assert_eq!(problem.to_string(), "Account must be specified");
        assert!(
            azure(&url("abfss://files@account.dfs.core.windows.net/"), &Environment::default(), &Door::default())
                .is_ok()
        );
    }
}
