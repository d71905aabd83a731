//! Hints for locations that may not be opened, and for object stores that reject a request.

use tfr_stores::{Error, ErrorKind, Service, SettingsProblem};

/// Returns a hint, if there is one.
pub fn hint(error: &Error) -> Option<String> {
    let hint = match error.kind() {
        ErrorKind::NotAllowed { allowed, .. } => {
            return Some(match allowed.as_slice() {
                [] => "--allow and TFR_SQL_ALLOW name what may be opened: nothing".to_owned(),
                allowed => format!("--allow and TFR_SQL_ALLOW name what may be opened: {}", allowed.join(", ")),
            });
        }
        ErrorKind::NotAFile { .. } => "write its content to a file and name that",
        ErrorKind::UnknownScheme { .. } => {
            "known are file://, s3://, gs://, az://, abfss://, http://, https:// and hdfs://"
        }
        ErrorKind::LeftOut { .. } => "build tfr-sql with its default features",
        ErrorKind::Settings { service, problem, .. } => settings(*service, problem),
        ErrorKind::NoCredentials { service, .. } => credentials(*service),
        ErrorKind::Denied { service, .. } => {
            return Some(format!(
                "check that the credentials are the right ones and may do this: {}",
                credentials(*service)
            ));
        }
        ErrorKind::NoBucket { .. } => "check the name, and the endpoint if it is not the usual one",
        ErrorKind::OtherRegion { region, .. } => return Some(format!("set AWS_REGION={region}")),
        ErrorKind::Unreachable { service: Service::Hdfs, .. } => {
            "check the name and the port of the namenode, and set HADOOP_CONF_DIR if it is the name of a service"
        }
        ErrorKind::BeingWritten { .. } => {
            "wait until its writer closes it, or name the other files; hdfs debug recoverLease closes one that was left"
        }
        ErrorKind::Unreachable { .. } => "check the endpoint, the network and the proxy settings",
        ErrorKind::NoParts { .. } => "download the file and name the copy",
        ErrorKind::NoListing { .. } => "name the files themselves: over http only WebDAV servers list",
        _ => return None,
    };
    Some(hint.to_owned())
}

fn settings(service: Service, problem: &SettingsProblem) -> &'static str {
    match problem {
        SettingsProblem::ProfileWithoutKeys { .. } => {
            "put them into the environment: eval \"$(aws configure export-credentials --format env)\""
        }
        SettingsProblem::AccountKey => {
            "set AZURE_STORAGE_ACCOUNT_KEY (or AZURE_STORAGE_KEY, or AccountKey in the connection string) to all of the \
             key, with the = at its end; a shared access signature goes into AZURE_STORAGE_SAS_TOKEN"
        }
        SettingsProblem::ContainerName { .. } => {
            "write the URL as az://container/path or abfss://container@account.dfs.core.windows.net/path"
        }
        SettingsProblem::UserOfHdfs => "leave it out, and set HADOOP_USER_NAME to read as another user",
        SettingsProblem::Endpoint(_) => "write it as http://host:9000 or https://host",
        _ => credentials(service),
    }
}

/// Lists the sources of a service's credentials.
fn credentials(service: Service) -> &'static str {
    match service {
        Service::S3 => {
            "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_SKIP_SIGNATURE=true for public data"
        }
        Service::Gcs => {
            "set GOOGLE_APPLICATION_CREDENTIALS to a file of credentials, or GOOGLE_SKIP_SIGNATURE=true for public data"
        }
        Service::Azure => {
            "set AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN, or \
             AZURE_SKIP_SIGNATURE=true for public data"
        }
        Service::Http => "credentials of a web server stand in the URL: https://user:password@host/file.csv",
        Service::Hdfs => {
            "set HADOOP_CONF_DIR to the directory of the cluster's core-site.xml and hdfs-site.xml, and HADOOP_USER_NAME \
             or, with Kerberos, run kinit"
        }
        _ => "check the permissions of the file",
    }
}

#[cfg(test)]
mod tests;
