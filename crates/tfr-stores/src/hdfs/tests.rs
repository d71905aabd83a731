use std::io::{self, Read as _, Write as _};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt as _;

use super::*;
use crate::error::{Error as StoreError, ErrorKind};
use crate::remote::{Origin, Remote};
use crate::service::Service;

const PATIENCE: Patience = Patience {
    connect: Duration::from_millis(200),
    answer: Duration::from_millis(200),
    retry: Duration::from_secs(20),
    retries: 2,
};

fn store(url: &str, environment: &Environment) -> Result<Remote<Hdfs>, SettingsProblem> {
    let built = hdfs(&Url::parse(url).unwrap(), environment, PATIENCE)?;
    let origin = Origin { store: url.into(), service: Service::Hdfs };
    Ok(Remote { inner: Arc::new(built.store), origin })
}

fn kind(error: Error) -> ErrorKind {
    let Error::Generic { source, .. } = error else { panic!("{error}") };
    source.downcast::<StoreError>().expect("an error of stores").into_kind()
}

/// A server that does the same with every connection. It ends with the process.
fn serve(each: impl Fn(std::net::TcpStream) -> io::Result<()> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("hdfs://{}", listener.local_addr().unwrap());
    let each = Arc::new(each);
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let each = Arc::clone(&each);
            thread::spawn(move || each(connection));
        }
    });
    url
}

#[tokio::test]
async fn hdfs_namenode_that_does_not_answer_is_given_up() {
    let silent = serve(|mut connection| connection.read_to_end(&mut Vec::new()).map(drop));
    let closing = serve(|_| Ok(()));
    let garbage = serve(|mut connection| {
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")?;
        connection.read_to_end(&mut Vec::new()).map(drop)
    });
    let absent = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().map(|at| format!("hdfs://{at}")).unwrap();
    for (url, expected) in [
        (silent, "no answer within 0.2 s"),
        (closing, "the namenode closed the connection without an answer"),
        (garbage, "no answer within 0.2 s"),
        (absent, "Connection refused"),
    ] {
        let started = Instant::now();
        let error = kind(store(&url, &Environment::default()).unwrap().head(&Path::from("a")).await.unwrap_err());
        let ErrorKind::Unreachable { reason, .. } = error else { panic!("{url}: {error:?}") };
        assert!(reason.contains(expected), "{reason}");
        assert!(started.elapsed() < Duration::from_secs(10), "{url}");
    }
}

#[tokio::test]
async fn hdfs_name_that_is_unknown_is_not_repeated() {
    let patience = Patience { retries: 10, connect: Duration::from_secs(5), ..PATIENCE };
    let built = hdfs(&Url::parse("hdfs://none.invalid/").unwrap(), &Environment::default(), patience).unwrap();
    let started = Instant::now();
    let fault = built.store.head(&Path::from("a")).await.unwrap_err();
    assert!(matches!(&fault, Fault::Unknown(reason) if reason.starts_with("none.invalid:8020: ")), "{fault:?}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[test]
fn hdfs_url_with_a_user_is_refused() {
    for url in ["hdfs://alice@node/", "viewfs://alice@cl/"] {
        assert_eq!(store(url, &Environment::default()).err(), Some(SettingsProblem::UserOfHdfs), "{url}");
    }
}

#[tokio::test]
async fn hdfs_mounts_are_directories_of_their_parents() {
    let directory = tempfile::tempdir().unwrap();
    let property = |name: &str, value: &str| format!("<property><name>{name}</name><value>{value}</value></property>");
    let properties = [
        property("fs.viewfs.mounttable.cl.link./a/b", "hdfs://127.0.0.1:1/x%20y"),
        property("fs.viewfs.mounttable.cl.link./a/c/d", "s3a://bucket/z"),
        property("fs.viewfs.mounttable.cl.link./e", "hdfs://127.0.0.1:1/"),
    ];
    let text = format!("<configuration>{}</configuration>", properties.concat());
    std::fs::write(directory.path().join("core-site.xml"), text).unwrap();
    let environment = [("HADOOP_CONF_DIR", directory.path().to_str().unwrap())].into();
    let built = hdfs(&Url::parse("viewfs://cl/").unwrap(), &environment, PATIENCE).unwrap();
    assert_eq!(built.summary, "namenodes 127.0.0.1:1, simple authentication");
    let mounts = Arc::clone(&built.store.mounts);
    for (path, place) in
        [("a/b", Some("/x y")), ("a/b/f", Some("/x y/f")), ("a/bc", None), ("e", Some("/")), ("e/f", Some("/f"))]
    {
        assert_eq!(mounts.place(&Path::from(path)).ok().map(|place| place.path).as_deref(), place, "{path}");
    }
    for (path, inside) in [("", &["a", "e"][..]), ("a", &["a/b", "a/c"]), ("a/c", &["a/c/d"])] {
        let listed = built.store.list_with_delimiter(Some(&Path::from(path))).await.unwrap();
        let found: Vec<_> = listed.common_prefixes.iter().map(Path::as_ref).collect();
        assert_eq!((found.as_slice(), listed.objects.len()), (inside, 0), "{path}");
    }
    let fault = mounts.place(&Path::from("a/c/d/f")).err().map(|fault| fault.to_string());
    assert_eq!(fault.as_deref(), Some("/a/c/d is mounted at s3a://bucket/z, which is not HDFS"));
}
