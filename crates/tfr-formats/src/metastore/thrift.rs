//! Values of [Thrift's binary protocol](https://github.com/apache/thrift/blob/master/doc/specs/thrift-binary-protocol.md),
//! without generated types: a struct is its fields by number.
//!
//! Lengths and counts from a server are never trusted: memory is taken for what has arrived only, the bytes of an answer are
//! bounded, and so is the depth of nested values.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The most bytes of an answer, and of the values in it.
const LARGEST_ANSWER: u64 = 512 << 20;

/// The deepest nesting of an answer. Those of a metastore have some ten levels.
const DEEPEST: usize = 32;

/// The first two bytes of a message, before its kind.
const VERSION: u32 = 0x8001_0000;

const CALL: u8 = 1;
const REPLY: u8 = 2;
const EXCEPTION: u8 = 3;

/// A value, or the absence of one in a field.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Bool(bool),
    I8(i8),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    /// Text or bytes.
    Bytes(Vec<u8>),
    Struct(Struct),
    Map(Vec<(Value, Value)>),
    /// A list or a set.
    List(Vec<Value>),
}

/// The fields of a struct that are set, by their numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Struct(BTreeMap<i16, Value>);

impl Struct {
    /// Creates a struct with these fields.
    pub fn of(fields: impl IntoIterator<Item = (i16, Value)>) -> Self {
        Self(fields.into_iter().collect())
    }

    /// Takes a field, so that large answers are not copied.
    pub fn take(&mut self, number: i16) -> Option<Value> {
        self.0.remove(&number)
    }

    /// Takes a text. Bytes that are not UTF-8 are replaced.
    pub fn text(&mut self, number: i16) -> Option<String> {
        match self.take(number)? {
            Value::Bytes(bytes) => Some(into_text(bytes)),
            _ => None,
        }
    }

    /// Takes a struct, or one without fields.
    pub fn structure(&mut self, number: i16) -> Self {
        match self.take(number) {
            Some(Value::Struct(fields)) => fields,
            _ => Self::default(),
        }
    }

    /// Takes the items of a list, or none.
    pub fn list(&mut self, number: i16) -> Vec<Value> {
        match self.take(number) {
            Some(Value::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Takes the structs in a list, or none.
    pub fn structs(&mut self, number: i16) -> impl Iterator<Item = Self> {
        self.list(number).into_iter().filter_map(|item| match item {
            Value::Struct(fields) => Some(fields),
            _ => None,
        })
    }

    /// Takes the texts in a list, or none.
    pub fn texts(&mut self, number: i16) -> Vec<String> {
        self.list(number).into_iter().filter_map(Value::into_text).collect()
    }

    /// Takes a map of texts, or an empty one.
    pub fn properties(&mut self, number: i16) -> BTreeMap<String, String> {
        let Some(Value::Map(entries)) = self.take(number) else { return BTreeMap::new() };
        entries.into_iter().filter_map(|(key, value)| Some((key.into_text()?, value.into_text()?))).collect()
    }

    /// The numbers of the fields that are set.
    pub fn numbers(&self) -> impl Iterator<Item = i16> {
        self.0.keys().copied()
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Bytes(text.as_bytes().to_vec())
    }
}

impl Value {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Bytes(bytes) => Some(into_text(bytes)),
            _ => None,
        }
    }

    /// The code of its type.
    fn code(&self) -> u8 {
        match self {
            Self::Bool(_) => 2,
            Self::I8(_) => 3,
            Self::Double(_) => 4,
            Self::I16(_) => 6,
            Self::I32(_) => 8,
            Self::I64(_) => 10,
            Self::Bytes(_) => 11,
            Self::Struct(_) => 12,
            Self::Map(_) => 13,
            Self::List(_) => 15,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Bool(value) => out.push(u8::from(*value)),
            Self::I8(value) => out.extend(value.to_be_bytes()),
            Self::I16(value) => out.extend(value.to_be_bytes()),
            Self::I32(value) => out.extend(value.to_be_bytes()),
            Self::I64(value) => out.extend(value.to_be_bytes()),
            Self::Double(value) => out.extend(value.to_be_bytes()),
            Self::Bytes(bytes) => {
                write_count(bytes.len(), out);
                out.extend(bytes);
            }
            Self::Struct(Struct(fields)) => {
                for (number, value) in fields {
                    out.push(value.code());
                    out.extend(number.to_be_bytes());
                    value.write(out);
                }
                out.push(0);
            }
            Self::Map(entries) => {
                let text = Self::Bytes(Vec::new()).code();
                let (key, value) = entries.first().map_or((text, text), |(key, value)| (key.code(), value.code()));
                out.extend([key, value]);
                write_count(entries.len(), out);
                entries.iter().for_each(|(key, value)| {
                    key.write(out);
                    value.write(out);
                });
            }
            Self::List(items) => {
                out.push(items.first().map_or_else(|| Self::Bytes(Vec::new()).code(), Self::code));
                write_count(items.len(), out);
                items.iter().for_each(|item| item.write(out));
            }
        }
    }
}

fn write_count(count: usize, out: &mut Vec<u8>) {
    // Requests have names, filters and write ids, which are short.
    out.extend(i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

/// Returns the message that calls `method`.
pub(super) fn call(method: &str, sequence: i32, arguments: Struct) -> Vec<u8> {
    message(CALL, method, sequence, arguments)
}

/// Returns the message of a server that answers a call.
#[cfg(test)]
pub(super) fn reply(method: &str, sequence: i32, result: Struct) -> Vec<u8> {
    message(REPLY, method, sequence, result)
}

fn message(kind: u8, method: &str, sequence: i32, contents: Struct) -> Vec<u8> {
    let mut out = (VERSION | u32::from(kind)).to_be_bytes().to_vec();
    Value::from(method).write(&mut out);
    out.extend(sequence.to_be_bytes());
    Value::Struct(contents).write(&mut out);
    out
}

/// The answer to a call.
#[derive(Debug)]
pub(super) enum Answer {
    /// The result, by the numbers of the method: 0 is what it returns, the others are its exceptions.
    Reply(Struct),
    /// The server does not have the method, or has failed: its message.
    Exception(String),
    /// Something else than a message: its first bytes.
    Other([u8; 4]),
}

/// Reads the answer to a call of `method`.
///
/// # Errors
/// - The connection fails or ends.
/// - [`InvalidData`](ErrorKind::InvalidData): the answer is not valid, is that to another call, or is too large.
pub(super) async fn answer<R: AsyncRead + Unpin + Send>(reader: R, method: &str, sequence: i32) -> Result<Answer> {
    let mut reader = BinaryReader { inner: reader, left: LARGEST_ANSWER };
    let first: [u8; 4] = reader.array().await?;
    let kind = match u32::from_be_bytes(first) {
        word if word & 0xffff_0000 == VERSION => first[3],
        _ => return Ok(Answer::Other(first)),
    };
    let name = reader.bytes().await?;
    let answered = i32::from_be_bytes(reader.array().await?);
    let mut result = reader.structure(0).await?;
    match kind {
        EXCEPTION => Ok(Answer::Exception(result.text(1).unwrap_or_default())),
        REPLY if name == method.as_bytes() && answered == sequence => Ok(Answer::Reply(result)),
        REPLY => Err(invalid(format!("an answer to {} as number {answered}", String::from_utf8_lossy(&name)))),
        kind => Err(invalid(format!("a message of kind {kind}"))),
    }
}

fn invalid(found: String) -> Error {
    Error::new(ErrorKind::InvalidData, found)
}

/// Reads values, at most as many bytes as are left.
struct BinaryReader<R> {
    inner: R,
    left: u64,
}

impl<R: AsyncRead + Unpin + Send> BinaryReader<R> {
    fn charge(&mut self, bytes: u64) -> Result<()> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or_else(|| invalid(format!("an answer of more than {} MiB", LARGEST_ANSWER >> 20)))?;
        Ok(())
    }

    async fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.charge(N as u64)?;
        let mut bytes = [0; N];
        self.inner.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn byte(&mut self) -> Result<u8> {
        self.array().await.map(|[byte]| byte)
    }

    async fn count(&mut self) -> Result<u64> {
        let count = i32::from_be_bytes(self.array().await?);
        u64::try_from(count).map_err(|_| invalid(format!("a length of {count}")))
    }

    async fn bytes(&mut self) -> Result<Vec<u8>> {
        let length = self.count().await?;
        self.charge(length)?;
        let mut bytes = Vec::new();
        (&mut self.inner).take(length).read_to_end(&mut bytes).await?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(ErrorKind::UnexpectedEof.into()),
        }
    }

    async fn structure(&mut self, depth: usize) -> Result<Struct> {
        let mut fields = BTreeMap::new();
        loop {
            let code = self.byte().await?;
            if code == 0 {
                return Ok(Struct(fields));
            }
            let number = i16::from_be_bytes(self.array().await?);
            if fields.insert(number, self.value(code, depth + 1).await?).is_some() {
                return Err(invalid(format!("field {number} twice")));
            }
        }
    }

    fn value(&mut self, code: u8, depth: usize) -> BoxFuture<'_, Result<Value>> {
        async move {
            if depth > DEEPEST {
                return Err(invalid(format!("values nested more than {DEEPEST} deep")));
            }
            // One byte may be a value: what it takes in memory counts.
            self.charge(size_of::<Value>() as u64)?;
            Ok(match code {
                2 => Value::Bool(self.byte().await? != 0),
                3 => Value::I8(i8::from_be_bytes(self.array().await?)),
                4 => Value::Double(f64::from_be_bytes(self.array().await?)),
                6 => Value::I16(i16::from_be_bytes(self.array().await?)),
                8 => Value::I32(i32::from_be_bytes(self.array().await?)),
                10 => Value::I64(i64::from_be_bytes(self.array().await?)),
                11 => Value::Bytes(self.bytes().await?),
                12 => Value::Struct(self.structure(depth).await?),
                13 => {
                    let ([key, value], mut entries) = (self.array().await?, Vec::new());
                    for _ in 0..self.count().await? {
                        let key = self.value(key, depth + 1).await?;
                        entries.push((key, self.value(value, depth + 1).await?));
                    }
                    Value::Map(entries)
                }
                14 | 15 => {
                    let (item, mut items) = (self.byte().await?, Vec::new());
                    for _ in 0..self.count().await? {
                        items.push(self.value(item, depth + 1).await?);
                    }
                    Value::List(items)
                }
                code => return Err(invalid(format!("a value of type {code}"))),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Struct {
        let inner = Struct::of([(1, "Ä".into()), (2, Value::Bool(true)), (-3, Value::Double(-0.5))]);
        let properties = Value::Map(vec![("a".into(), "b".into()), ("c".into(), "".into())]);
        Struct::of([
            (0, Value::Struct(inner)),
            (1, Value::List(vec![Value::I32(i32::MIN), Value::I32(7)])),
            (2, properties),
            (3, Value::I64(i64::MAX)),
            (4, Value::List(Vec::new())),
            (5, Value::Map(Vec::new())),
            (6, Value::I16(-2)),
            (7, Value::I8(-1)),
        ])
    }

    /// An answer with these bytes as its result.
    fn reply_of(result: &[u8]) -> Vec<u8> {
        let mut out = reply("get", 4, Struct::default());
        out.pop();
        out.extend(result);
        out
    }

    async fn read(bytes: &[u8]) -> Result<Answer> {
        answer(bytes, "get", 4).await
    }

    #[tokio::test]
    async fn thrift_values_are_read_as_they_were_written() {
        let bytes = reply("get", 4, example());
        let Answer::Reply(mut found) = read(&bytes).await.unwrap() else { panic!("no reply") };
        assert_eq!(found, example());
        assert_eq!(found.properties(2), [("a", "b"), ("c", "")].map(|(key, value)| (key.into(), value.into())).into());
        assert_eq!(found.structure(0).text(1).unwrap(), "Ä");
        for end in 4..bytes.len() {
            read(&bytes[..end]).await.expect_err("it is cut off");
        }
        let exception = message(EXCEPTION, "get", 4, Struct::of([(1, "no such method".into())]));
        assert!(matches!(read(&exception).await.unwrap(), Answer::Exception(text) if text == "no such method"));
        assert!(matches!(read(b"HTTP/1.1 400").await.unwrap(), Answer::Other(bytes) if &bytes == b"HTTP"));
    }

    #[tokio::test]
    async fn thrift_lengths_are_not_trusted() {
        let text = |length: i32| [&[11, 0, 0][..], &length.to_be_bytes(), b"x"].concat();
        let many = [&[15, 0, 0, 12][..], &i32::MAX.to_be_bytes(), &[0; 1000]].concat();
        let nested: Vec<u8> = (0..100).flat_map(|_| [12, 0, 0]).collect();
        let twice = [&[2, 0, 1, 1][..], &[2, 0, 1, 1, 0]].concat();
        for (result, found) in [
            (text(-1), "a length of -1"),
            (text(i32::MAX), "an answer of more than 512 MiB"),
            (text(2), "unexpected end of file"),
            (many, "unexpected end of file"),
            (nested, "values nested more than 32 deep"),
            (twice, "field 1 twice"),
            (vec![16, 0, 0], "a value of type 16"),
        ] {
            let error = read(&reply_of(&result)).await.unwrap_err().to_string();
            assert!(error == found || error == "early eof", "{error}");
            assert!(error == found || found.starts_with("unexpected"), "{found}: {error}");
        }
        let empty = Struct::default;
        for other in [reply("put", 4, empty()), reply("get", 5, empty()), call("get", 4, empty())] {
            assert_eq!(read(&other).await.unwrap_err().kind(), ErrorKind::InvalidData);
        }
    }
}
