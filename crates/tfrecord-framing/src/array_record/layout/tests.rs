use super::*;

/// A file of Google's writer: `group_size:1,uncompressed`, the records `abc`, the empty one, and 300 times `x`.
const GOOGLES: &[u8] = include_bytes!("../../../tests/data/three.array_record");

fn chunk_header(begin: usize) -> ChunkHeader {
    ChunkHeader::decode(GOOGLES[begin..].first_chunk().expect("a header")).expect("sound")
}

#[test]
fn array_record_headers_match_googles() {
    assert_eq!(GOOGLES[..64], SIGNATURE);
    let header = chunk_header(64);
    assert_eq!(header, ChunkHeader::of(ChunkKind::Simple, 1, 3, b"\0\x01\x03abc"));
    assert_eq!(header.encode(), GOOGLES[64..104]);
    assert_eq!(chunk_end(&header, 64), 110);
    let block = BlockHeader::decode(GOOGLES[1 << 16..].first_chunk().expect("a header")).expect("sound");
    assert_eq!(block.encode(), GOOGLES[1 << 16..(1 << 16) + BLOCK_HEADER_LEN]);
    assert_eq!(block, BlockHeader { previous: 0, next: 24 + 40 + 44 });
}

#[test]
fn array_record_messages_match_googles() {
    let footer = chunk_header(497);
    let data = &GOOGLES[537..537 + footer.data_len as usize];
    footer.check_data(data).expect("sound");
    let records = &data[6..];
    let metadata = FooterMetadata::decode(&records[..97]).expect("a message");
    assert_eq!((metadata.chunks, metadata.records), (3, 3));
    assert_eq!(metadata.encode(), records[..97]);
    let entry = ChunkEntry::decode(&records[97..103]).expect("a message");
    assert_eq!(entry, ChunkEntry { position: 64, decoded_len: 3, records: 1 });
    let mut message = Vec::new();
    entry.encode_to(&mut message);
    assert_eq!(message, records[97..103]);
    let postscript = &GOOGLES[(1 << 16) + 24 + 40 + 5..][..13];
    assert_eq!(Postscript::decode(postscript), Ok(Postscript { footer: 497 }));
    assert_eq!(Postscript { footer: 497 }.encode(), postscript);
}

#[test]
fn array_record_layout_detects_each_flipped_bit() {
    for bit in 0..CHUNK_HEADER_LEN * 8 {
        let mut bytes = chunk_header(64).encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(ChunkHeader::decode(&bytes), Err(LayoutError::Hash { .. })), "bit {bit}");
    }
    for bit in 0..BLOCK_HEADER_LEN * 8 {
        let mut bytes = BlockHeader { previous: 0, next: 108 }.encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(BlockHeader::decode(&bytes), Err(LayoutError::Hash { .. })), "bit {bit}");
    }
    let no_chunk = BlockHeader { previous: 0, next: 24 };
    assert_eq!(BlockHeader::decode(&no_chunk.encode()), Err(LayoutError::BlockHeader { previous: 0, next: 24 }));
}

#[test]
fn array_record_messages_reject_other_bytes() {
    assert_eq!(Postscript::decode(&[8, 1, 16, 1]), Err(LayoutError::Magic { found: 1 }));
    assert_eq!(FooterMetadata::decode(&[10, 2, 8, 2]), Err(LayoutError::Version { found: 2 }));
    let broken = [8, 1, 26, 200];
    assert!(matches!(ChunkEntry::decode(&broken), Err(LayoutError::Message { .. })));
    assert!(matches!(ChunkEntry::decode(&[8, 1]), Err(LayoutError::Message { .. })));
    assert_eq!(split_varint(&[0xff; 10]), None);
    assert_eq!(split_varint(&[0x80]), None);
}

#[test]
fn array_record_varints_round_trip() {
    for number in (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).chain([u64::MAX]) {
        let mut bytes = Vec::new();
        push_varint(&mut bytes, number);
        assert_eq!(split_varint(&bytes), Some((number, [].as_slice())));
    }
}

/// A walk byte by byte, with the rule of the description: a block header at every multiple of 64 KiB, before the byte
/// that would be there.
#[test]
fn array_record_positions_match_a_walk() {
    let begins = (0..64).chain(BLOCK_LEN - 64..BLOCK_LEN + 64).filter(|&begin| is_chunk_boundary(begin));
    for begin in begins {
        for len in (1..200).chain(BLOCK_LEN - 200..BLOCK_LEN + 200).chain([3 * BLOCK_LEN]) {
            let (mut position, mut left) = (begin, len);
            while left > 0 {
                if position.is_multiple_of(BLOCK_LEN) {
                    position += BLOCK_HEADER_LEN as u64;
                }
                let step = left.min(BLOCK_LEN - position % BLOCK_LEN);
                (position, left) = (position + step, left - step);
            }
            assert_eq!(add_block_headers(begin, len), position, "{len} bytes from {begin}");
        }
    }
    let many = ChunkHeader { data_len: 0, data_hash: 0, kind: ChunkKind::Simple, records: BLOCK_LEN, decoded_len: 0 };
    assert_eq!((chunk_end(&many, 0), chunk_end(&many, 64)), (BLOCK_LEN, BLOCK_LEN + 64));
    assert_eq!(chunk_end(&ChunkHeader { records: BLOCK_LEN - 60, ..many }, 64), BLOCK_LEN + 25);
    assert_eq!(chunk_end(&ChunkHeader { data_len: u64::MAX, ..many }, 64), u64::MAX);
}
