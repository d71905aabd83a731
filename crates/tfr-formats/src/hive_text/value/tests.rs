//! Cells at the edges of what types hold.

use super::*;

fn cut<T>(value: T) -> Option<Read<T>> {
    Some(Read { value, is_cut: true })
}

fn whole<T>(value: T) -> Option<Read<T>> {
    Some(Read::whole(value))
}

#[test]
fn integers() {
    for (cell, expected) in [
        ("0", whole(0)),
        ("-007", whole(-7)),
        ("+5", whole(5)),
        ("9223372036854775807", whole(i64::MAX)),
        ("-9223372036854775808", whole(i64::MIN)),
        ("9223372036854775808", None),
        ("45.7", cut(45)),
        ("-45.00", whole(-45)),
        ("5.", whole(5)),
        (".5", cut(0)),
        ("", None),
        ("-", None),
        (".", None),
        ("1e3", None),
        (" 1", None),
        ("1.2.3", None),
        ("--1", None),
    ] {
        assert_eq!(integer(cell.as_bytes()), expected, "{cell:?}");
    }
}

#[test]
fn floats() {
    for (cell, expected) in [
        (" 1.5 ", whole(1.5)),
        ("1e3f", whole(1000.0)),
        ("-.5D", whole(-0.5)),
        ("-Infinity", whole(f64::NEG_INFINITY)),
        ("1e400", cut(f64::INFINITY)),
        ("1e-400", cut(0.0)),
        ("inf", None),
        ("infinity", None),
        ("nan", None),
        ("", None),
        ("f", None),
        ("0x1p3", None),
    ] {
        assert_eq!(float64(cell.as_bytes()), expected, "{cell:?}");
    }
    assert!(float64(b"NaN").is_some_and(|read| read.value.is_nan()));
    assert_eq!(float32(b"1e39"), cut(f32::INFINITY));
    assert_eq!(float32(b"0.1"), whole(0.1));
}

#[test]
fn decimals() {
    let digits = "9".repeat(38);
    for (cell, expected) in [
        ("1.23", whole(123)),
        ("-1.2", whole(-120)),
        ("1.235", cut(124)),
        ("-1.235", cut(-124)),
        ("1.2349", cut(123)),
        ("0.004", cut(0)),
        ("0.0050", cut(1)),
        ("1.2300000", whole(123)),
        (".5", whole(50)),
        ("5.", whole(500)),
        ("12e1", whole(12000)),
        ("1234E-2", whole(1234)),
        ("1E-99", cut(0)),
        ("0E+99", whole(0)),
        (" 7 ", whole(700)),
        ("999.99", whole(99999)),
        ("999.995", None),
        ("1000", None),
        ("1E+99", None),
        ("1E9999999999999999999", None),
        ("1E9223372036854775807", None),
        ("1e-100", None),
        ("0e100", None),
        ("1e-400", None),
        ("0.004999999999999999999999999999999999999999999", cut(1)),
        ("0.00499999999999999999999999999999999999", cut(0)),
        ("100000000000000000000000000000000000000e-38", None),
        ("0000000000000000000000000000000000000000000001", whole(100)),
        ("", None),
        (".", None),
        ("1.2.3", None),
        ("1e", None),
        ("x", None),
    ] {
        assert_eq!(decimal(cell.as_bytes(), 5, 2), expected, "{cell:?}");
    }
    assert_eq!(decimal(digits.as_bytes(), 38, 0).map(|read| read.value.to_string()), Some(digits));
    assert_eq!(decimal("9".repeat(100_000).as_bytes(), 38, 0), None);
    let ones = "1".repeat(38);
    assert_eq!(decimal(format!("{ones}.4").as_bytes(), 38, 0).map(|read| read.value.to_string()), Some(ones));
    assert_eq!(decimal(format!("{}.5", "9".repeat(38)).as_bytes(), 38, 0), None);
    assert_eq!(decimal(format!("0.{}", "9".repeat(39)).as_bytes(), 38, 2), cut(100));
    assert_eq!(decimal(b"1e-38", 38, 38), whole(1));
    assert_eq!(decimal(b"1e-39", 38, 38), cut(0));
}

#[test]
fn dates_and_times() {
    for (cell, expected) in [
        ("1970-01-01", whole(0)),
        ("1969-12-31", whole(-1)),
        ("2000-02-29", whole(11016)),
        ("0001-01-01", whole(-719_162)),
        ("9999-12-31", whole(2_932_896)),
        ("2024-2-3", whole(19756)),
        ("2024-02-03 00:00:00", whole(19756)),
        ("2024-02-03 10:00:00", cut(19756)),
        // As in Hive 4.
        ("2024-02-03T25:61:00", cut(19756)),
        ("2024-02-03x", cut(19756)),
        ("2024-2-3 10", cut(19756)),
        ("2024-02-03-", cut(19756)),
        ("-0001-01-01", whole(-719_893)),
        ("0000-02-29", whole(-719_469)),
        ("2024-02-031", None),
        ("-0000-01-01", None),
        ("24-2-3", None),
        ("02024-02-03", None),
        ("10000-01-01", None),
        ("+2024-02-03", None),
        ("1900-02-29", None),
        ("2024-13-01", None),
        ("2024-00-01", None),
        ("2024-04-31", None),
        ("20240203", None),
        ("", None),
    ] {
        assert_eq!(date(cell.as_bytes()), expected, "{cell:?}");
    }
    let micros = |cell: &str| timestamp(cell.as_bytes(), TimeUnit::Microsecond);
    assert_eq!(micros("1970-01-01 00:00:01.5"), whole(1_500_000));
    assert_eq!(micros("1969-12-31T23:59:59.9"), whole(-100_000));
    assert_eq!(micros("1970-01-01t00:00:00"), whole(0));
    assert_eq!(micros("70-1-1 0:0:0"), micros("0070-01-01 00:00:00"));
    assert_eq!(micros("-0001-01-01 00:00:00"), whole(-719_893 * 86_400_000_000));
    assert_eq!(micros("10000-01-01 00:00:00"), whole(253_402_300_800_000_000));
    assert_eq!(micros("1970-01-01 00:00:00.0000019"), cut(1));
    assert_eq!(micros("9999-12-31 23:59:59"), whole(253_402_300_799_000_000));
    assert_eq!(timestamp(b"9999-12-31 23:59:59", TimeUnit::Nanosecond), None);
    assert_eq!(timestamp(b"1970-01-01 0:0:0.123456789", TimeUnit::Nanosecond), whole(123_456_789));
    for cell in [
        "1970-01-01",
        "1970-01-01 ",
        "-0000-01-01 00:00:00",
        "999999999-01-01 00:00:00",
        "2016-12-31 23:59:60",
        "1970-01-01 24:00:00",
        "1970-01-01 00:00",
        "1970-01-01 00:00:00Z",
        "1970-01-01 00:00:00.1234567890",
    ] {
        assert_eq!(micros(cell), None, "{cell:?}");
    }
}

#[test]
fn bytes() {
    for (cell, expected) in [
        (&b"YWJjZA=="[..], &b"abcd"[..]),
        (b"YWJjZA", b"abcd"),
        (b"X'01FF'", b"X'01FF'"),
        (b"two words", b"two words"),
        (b"\xff\x00", b"\xff\x00"),
        (b"A", b"A"),
        (b"YW+/", b"ao\xbf"),
        (b"YWK", b"ab"),
        (b"YW-_", b"YW-_"),
        (b"YWJj=", b"YWJj="),
        (b"YWJjZA=", b"YWJjZA="),
        (b"YWJjZA===", b"YWJjZA==="),
        (b"YQ==YQ==", b"YQ==YQ=="),
        (b"", b""),
        (b"==", b"=="),
    ] {
        assert_eq!(binary(cell).as_ref(), expected, "{cell:?}");
    }
}

#[test]
fn texts() {
    let varchar = Some(MaxChars { count: 3, padded: false });
    let char = Some(MaxChars { count: 3, padded: true });
    assert_eq!(Some(text("äöüß", varchar)), cut("äöü"));
    assert_eq!(Some(text("a  ", varchar)), whole("a  "));
    assert_eq!(Some(text("a     ", char)), whole("a"));
    assert_eq!(Some(text("abcd", char)), cut("abc"));
    assert_eq!(Some(text("abcd", None)), whole("abcd"));
}
