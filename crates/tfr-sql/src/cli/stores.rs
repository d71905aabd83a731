//! Options for object stores.

use clap::Args;
use tfr_stores::{Door, StoreOptions};

const S3_ENDPOINT_HELP: &str = "\
Use this S3 server instead of AWS: a URL such as http://host:9000 [default: AWS_ENDPOINT_URL]

Buckets are then part of the path, as MinIO, Ceph and other servers require.

All other settings of stores are read from environment variables with the names that the stores' own tools use:

  s3://     AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION;
            or AWS_PROFILE, for keys in ~/.aws/credentials; or the role of a web
            identity, a container or an instance
  gs://     GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT
  az://     AZURE_STORAGE_ACCOUNT_NAME with AZURE_STORAGE_ACCOUNT_KEY,
            AZURE_STORAGE_SAS_TOKEN or AZURE_CLIENT_SECRET; or a managed identity;
            the same for abfss://container@account.dfs.core.windows.net
  hdfs://   HADOOP_CONF_DIR or HADOOP_HOME, HADOOP_USER_NAME; or the ticket of kinit
  https://  a user, or a signature, in the URL itself: https://user:password@host/a.csv

Public data is read without credentials with AWS_SKIP_SIGNATURE=true, GOOGLE_SKIP_SIGNATURE=true or \
AZURE_SKIP_SIGNATURE=true. Failed requests are retried, which -v logs.";

/// Options for object stores.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Stores")]
#[group(skip)]
pub struct StoreArgs {
    /// Use this S3 server instead of AWS: a URL such as http://host:9000
    #[arg(long, value_name = "URL", long_help = S3_ENDPOINT_HELP, hide_short_help = true)]
    s3_endpoint: Option<String>,
}

impl StoreArgs {
    /// Returns the store options, with those from the environment, of a run that may open what `door` allows.
    pub fn options(&self, door: &Door) -> StoreOptions {
        let mut options = StoreOptions::from_environment();
        options.s3_endpoint.clone_from(&self.s3_endpoint);
        options.door = door.clone();
        options
    }
}
