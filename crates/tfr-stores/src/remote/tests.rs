use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread;

use object_store::azure::MicrosoftAzureBuilder;
use object_store::{PutMode, UpdateVersion};

use super::*;

/// What a file has: more than one part.
const LEN: u64 = PART + 1000;

/// A service whose answers have entity tags without quotes, and which takes them only with quotes.
struct OldAzure {
    address: String,
    /// The conditions of all requests, in order.
    conditions: Arc<Mutex<Vec<String>>>,
}

impl OldAzure {
    fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = format!("http://{}", listener.local_addr()?);
        let conditions = Arc::new(Mutex::default());
        let noted = Arc::clone(&conditions);
        // It ends with the process.
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let noted = Arc::clone(&noted);
                thread::spawn(move || while answer(&connection, &noted).is_ok() {});
            }
        });
        Ok(Self { address, conditions })
    }
}

/// Answers one request.
fn answer(mut connection: &TcpStream, conditions: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut reader = BufReader::new(connection);
    let (mut lines, mut line) = (Vec::new(), String::new());
    while reader.read_line(&mut line)? > 2 {
        lines.push(std::mem::take(&mut line));
    }
    if lines.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let header = |name: &str| {
        let mut headers = lines.iter().filter_map(|line| line.split_once(": "));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
    };
    let condition = header("if-match");
    let is_met = condition.as_deref().is_none_or(|tag| tag == "\"0x8D\"");
    conditions.lock().expect("no panic").extend(condition);
    let fixed = "ETag: 0x8D\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";
    if !is_met {
        return write!(connection, "HTTP/1.1 412 Precondition Failed\r\nContent-Length: 0\r\n\r\n");
    }
    if lines[0].starts_with("PUT") {
        io::copy(&mut io::Read::take(&mut reader, 3), &mut io::sink())?;
        return write!(connection, "HTTP/1.1 201 Created\r\n{fixed}Content-Length: 0\r\n\r\n");
    }
    let range = header("range").or(header("x-ms-range"));
    let (first, last) = match range.as_deref().and_then(|range| range.strip_prefix("bytes=")?.split_once('-')) {
        Some((first, last)) => (first.parse().unwrap_or(0), last.parse().unwrap_or(LEN - 1).min(LEN - 1)),
        None => (0, LEN - 1),
    };
    let len = last + 1 - first;
    let range = format!("Content-Range: bytes {first}-{last}/{LEN}\r\n");
    write!(connection, "HTTP/1.1 206 Partial Content\r\n{fixed}{range}Content-Length: {len}\r\n\r\n")?;
    connection.write_all(&vec![b'x'; usize::try_from(len).unwrap_or_default()])
}

#[tokio::test]
async fn tags_without_quotes_are_quoted_for_azure() -> Result<(), Box<dyn std::error::Error>> {
    let server = OldAzure::start()?;
    let azure = MicrosoftAzureBuilder::new()
        .with_account("account")
        .with_container_name("files")
        .with_endpoint(server.address.clone())
        .with_allow_http(true)
        .with_skip_signature(true);
    let origin = Origin { store: "az://files".into(), service: Service::Azure };
    let remote = Arc::new(Remote { inner: Arc::new(azure.build()?), origin });
    let location = Path::from("a.csv");
    let options = || GetOptions { if_match: Some("0x8D".to_owned()), ..GetOptions::default() };
    // The first request is of this version, the second of the next part.
    assert_eq!(remote.get_opts(&location, options()).await?.bytes().await?.len() as u64, LEN);
    let version = UpdateVersion { e_tag: Some("0x8D".to_owned()), version: None };
    let options = PutOptions { mode: PutMode::Update(version), ..PutOptions::default() };
    remote.put_opts(&location, "new".into(), options).await?;
    assert_eq!(*server.conditions.lock().expect("no panic"), ["\"0x8D\""; 3]);
    Ok(())
}

/// A server that sends an entity tag without quotes may compare it as it is.
#[test]
fn entity_tags_are_sent_verbatim_except_to_azure() {
    for (service, tag, expected) in [
        (Service::Azure, "0x8D", "\"0x8D\""),
        (Service::Azure, "\"0x8D\"", "\"0x8D\""),
        (Service::Azure, "*", "*"),
        (Service::Http, "0x8D", "0x8D"),
        (Service::S3, "\"a\"", "\"a\""),
    ] {
        let origin = Origin { store: "".into(), service };
        assert_eq!(origin.condition(tag.to_owned()), expected);
    }
}
