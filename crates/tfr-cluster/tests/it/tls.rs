//! Encrypted connections, and processes that do not belong to the cluster.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::processes::{ARRANGEMENTS, Cluster, Environment, assert_done, assert_same_files, tfr_sql};

/// Makes the certificate of an authority, and one that it has signed, as the guide does.
fn certificates(dir: &Path) -> Environment {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -copy_extensions copy";
    for arguments in [
        format!("req -x509 {key} -subj /CN=authority -days 2 -keyout ca.key -out ca.pem"),
        format!(
            "req {key} -subj /CN=tfr-cluster -addext subjectAltName=DNS:tfr-cluster -keyout key.pem -out request.pem"
        ),
        format!("x509 -req -in request.pem {sign} -days 2 -out cert.pem"),
    ] {
        let output = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
        assert_done(&output);
    }
    let files = [("TFR_CLUSTER_CA", "ca.pem"), ("TFR_CLUSTER_CERT", "cert.pem"), ("TFR_CLUSTER_KEY", "key.pem")];
    files.map(|(variable, file)| (variable, dir.join(file))).to_vec()
}

#[test]
fn tls_rejects_processes_without_a_certificate() {
    let [ours, others] = [(); 2].map(|()| TempDir::new().unwrap());
    let [ours, others] = [&ours, &others].map(|dir| certificates(dir.path()));
    let cluster = Cluster::with_environment(2, ours.clone());
    for (name, arguments) in ARRANGEMENTS {
        let (alone, together) = (cluster.path("alone").join(name), cluster.path("together").join(name));
        assert_done(&cluster.local(&cluster.query(), &alone, arguments));
        assert_done(&cluster.command(&cluster.query(), &together, arguments).output().unwrap());
        assert_same_files(name, &together, &alone);
    }
    let aggregate = format!("SELECT city, count(*) AS n FROM {} GROUP BY city", cluster.trips());
    assert_done(&cluster.command(&aggregate, &cluster.path("together/aggregate"), &[]).output().unwrap());

    // Nobody else is answered: neither the command nor an executor.
    let out = cluster.path("together/refused");
    for environment in [Vec::new(), others] {
        let mut command = cluster.command(&cluster.query(), &out, &[]);
        for (variable, _) in &ours {
            command.env_remove(variable);
        }
        let output = command.envs(environment.clone()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{text}");
        assert!(text.contains("the scheduler refuses the connection"), "{text}");
        assert!(!out.exists());
    }
    let mut incomplete = cluster.command(&cluster.query(), &out, &[]);
    let output = incomplete.env_remove("TFR_CLUSTER_KEY").output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("TFR_CLUSTER_KEY is not set"), "{text}");
    let mut scheduler = tfr_sql();
    let output = scheduler.args(["scheduler", "--bind", "127.0.0.1:0"]).env(ours[0].0, "missing.pem").output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}
