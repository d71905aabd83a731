use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::error::ErrorKind;
use crate::metastore::thrift::{Value, reply};

/// What a server does with its connections, one after the other.
#[derive(Clone)]
enum Act {
    /// Closes the connection when a call has arrived.
    Close,
    /// Answers all calls with the name of the server.
    Answer(&'static str),
    /// Sends these bytes, and no more.
    Bytes(Vec<u8>),
    /// Keeps the connection, and says nothing.
    Silence,
}

/// Starts a server that does this, the last of it for all further connections.
async fn server(acts: Vec<Act>) -> String {
    counting_server(acts).await.0
}

/// Starts such a server. Returns the number of its connections, too.
async fn counting_server(acts: Vec<Act>) -> (String, Arc<AtomicUsize>) {
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&connections);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("thrift://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let number = counted.fetch_add(1, Ordering::Relaxed);
            let act = acts[number.min(acts.len() - 1)].clone();
            let mut sequence = 1;
            let mut call = [0; 1000];
            match act {
                Act::Close => drop(stream.read(&mut call).await),
                Act::Silence => kept.push(stream),
                Act::Bytes(bytes) => {
                    let _ = stream.read(&mut call).await;
                    stream.write_all(&bytes).await.unwrap();
                    kept.push(stream);
                }
                Act::Answer(name) => {
                    tokio::spawn(async move {
                        while let Ok(1..) = stream.read(&mut call).await {
                            // The number of the call is behind the version and the name.
                            let at = 8 + "getName".len();
                            sequence = i32::from_be_bytes(call[at..at + 4].try_into().unwrap()).max(sequence);
                            let result = Struct::of([(0, Value::from(name))]);
                            if stream.write_all(&reply("getName", sequence, result)).await.is_err() {
                                break;
                            }
                        }
                    });
                }
            }
        }
    });
    (address, connections)
}

fn client(addresses: &[String]) -> Client {
    let mut client = Client::new(&addresses.join(","), &Door::default()).unwrap();
    let short = Duration::from_millis(20);
    client.patience =
        Patience { connecting: Duration::from_secs(5), answering: Duration::from_secs(1), pauses: [short; 3] };
    client
}

async fn asked(client: &Client) -> Result<String> {
    client.call("getName", Struct::default()).await.map(|mut result| result.text(0).unwrap())
}

/// A port where nothing listens.
async fn absent() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("thrift://{}", listener.local_addr().unwrap())
}

#[tokio::test]
async fn metastore_calls_are_repeated_at_the_next_server_and_again() {
    let one = server(vec![Act::Close, Act::Close, Act::Answer("one")]).await;
    assert_eq!(asked(&client(std::slice::from_ref(&one))).await.unwrap(), "one");
    let two = server(vec![Act::Answer("two")]).await;
    let client = client(&[absent().await, two]);
    for _ in 0..3 {
        assert_eq!(asked(&client).await.unwrap(), "two");
    }
}

#[tokio::test]
async fn metastores_that_are_absent_or_silent_are_errors_in_time() {
    let address = absent().await;
    let error = asked(&client(std::slice::from_ref(&address))).await.unwrap_err();
    let ErrorKind::Metastore(MetastoreError::Unreachable { servers }) = error.kind() else { panic!("{error}") };
    let [(server_name, _)] = servers.as_slice() else { panic!("{servers:?}") };
    assert_eq!(*server_name, address);

    let (address, connections) = counting_server(vec![Act::Silence]).await;
    let error = asked(&client(&[address])).await.unwrap_err();
    let ErrorKind::Metastore(MetastoreError::Unreachable { servers }) = error.kind() else { panic!("{error}") };
    assert_eq!(servers[0].1, "no answer to getName within 1 s");
    assert_eq!(connections.load(Ordering::Relaxed), 1, "a server that is silent is not asked again");
}

#[tokio::test]
async fn other_protocols_than_thrift_are_named() {
    for (bytes, expected) in [
        (&b"\x05\x00\x00\x00\x14Invalid status -128"[..], Some("SASL")),
        (b"\x15\x03\x01\x00\x02\x02\x0a", Some("TLS")),
        (b"HTTP/1.1 400 Bad Request\r\n", Some("HTTP")),
        (b"garbage", None),
    ] {
        let client = client(&[server(vec![Act::Bytes(bytes.to_vec())]).await]);
        let error = asked(&client).await.unwrap_err();
        match (error.kind(), expected) {
            (ErrorKind::Metastore(MetastoreError::Protocol { protocol, .. }), Some(expected)) => {
                assert_eq!(*protocol, expected);
            }
            (ErrorKind::Metastore(MetastoreError::Answer { problem, .. }), None) => {
                assert_eq!(problem, "an answer is not valid: bytes [67, 61, 72, 62]");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn metastore_addresses_have_a_scheme_and_a_host() {
    let addresses = |text| Client::new(text, &Door::default()).map(|client| client.addresses());
    assert_eq!(addresses("thrift://a:1, thrift://b").unwrap(), "thrift://a:1,thrift://b:9083");
    assert_eq!(addresses("thrift://[::1]:7").unwrap(), "thrift://[::1]:7");
    for text in ["", "a:1", "http://a:1", "thrift://", "thrift://me@a:1", "thrift://a:1/x", "thrift://a:1,,"] {
        addresses(text).unwrap_err();
    }
}
