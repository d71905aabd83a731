use super::*;

/// Frames `record` in the most direct way.
fn frame(record: &[u8]) -> Vec<u8> {
    let len = (record.len() as u64).to_le_bytes();
    let crc = |bytes| masked_crc32c(bytes).to_le_bytes();
    [&len[..], &crc(&len), record, &crc(record)].concat()
}

#[test]
fn sealing_fills_in_all_but_the_payload() {
    for record in [&b""[..], b"x", &[7; 1000]] {
        let mut sealed = [&[0xaa; HEADER_LEN], record, &[0xbb; FOOTER_LEN]].concat();
        seal_record(&mut sealed);
        assert_eq!(sealed, frame(record));
    }
}

#[test]
fn seal_record_leaves_short_buffers_unchanged() {
    for len in 0..OVERHEAD {
        let mut short = vec![0xaa; len];
        seal_record(&mut short);
        assert_eq!(short, vec![0xaa; len]);
    }
}

#[test]
fn append_record_frames_the_payload() {
    let mut out = b"before".to_vec();
    append_record(&mut out, |payload| {
        payload.extend_from_slice(b"record");
        Ok::<_, ()>(())
    })
    .unwrap();
    assert_eq!(out, [b"before", &frame(b"record")[..]].concat());
}

#[test]
fn a_failed_append_leaves_no_trace() {
    let mut out = b"before".to_vec();
    let failed = append_record(&mut out, |payload| {
        payload.extend_from_slice(b"half a rec");
        Err("no more")
    });
    assert_eq!(failed, Err("no more"));
    assert_eq!(out, b"before");
}

#[test]
fn a_length_is_judged_only_once_its_checksum_holds() {
    let position = Position { record: 3, byte: 99 };
    let kind = |header: &[u8; HEADER_LEN]| {
        let error = Header::parse(header).payload_len(100, position).unwrap_err();
        assert_eq!(error.position(), position);
        error.into_kind()
    };

    let mut header = [0xff; HEADER_LEN];
    assert!(matches!(kind(&header), ErrorKind::LengthCrc { len: u64::MAX, found: u32::MAX, .. }));

    header[8..].copy_from_slice(&masked_crc32c(&[0xff; 8]).to_le_bytes());
    assert!(matches!(kind(&header), ErrorKind::RecordTooLong { len: u64::MAX, max: 100, .. }));
}
