//! Framing and its checksums, compared with memcpy of the same bytes.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use tfrecord_framing::{
    CrcPolicy, FOOTER_LEN, HEADER_LEN, RecordDecoder, RecordReader, RecordScanner, RecordWriter, Records,
    masked_crc32c, seal_record,
};

/// Fits in the L2 cache, so the benchmark measures computation rather than memory.
const BLOCK_LEN: usize = 256 << 10;

/// Payload lengths: a few scalars, a wide row, a small image.
const RECORD_LENS: [usize; 4] = [16, 64, 430, 16 << 10];

fn framing(c: &mut Criterion) {
    let mut group = c.benchmark_group("framing");
    group.measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    for len in RECORD_LENS {
        let record: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let frame_len = HEADER_LEN + len + FOOTER_LEN;
        let records = BLOCK_LEN / frame_len;
        let mut framed = vec![0; records * frame_len];
        framed.chunks_exact_mut(frame_len).for_each(|frame| {
            frame[HEADER_LEN..][..len].copy_from_slice(&record);
            seal_record(frame);
        });
        group.throughput(Throughput::Bytes(framed.len() as u64));

        let mut copy = vec![0; framed.len()];
        group.bench_function(BenchmarkId::new("memcpy", len), |b| {
            b.iter(|| copy.copy_from_slice(black_box(&framed)));
        });
        group.bench_function(BenchmarkId::new("seal_record", len), |b| {
            b.iter(|| black_box(&mut copy).chunks_exact_mut(frame_len).for_each(seal_record));
        });
        group.bench_function(BenchmarkId::new("write_record", len), |b| {
            b.iter(|| {
                let mut writer = RecordWriter::new(std::io::sink());
                (0..records).try_for_each(|_| writer.write_record(black_box(&record))).and_then(|()| writer.finish())
            });
        });
        group.bench_function(BenchmarkId::new("read_record", len), |b| {
            let mut record = Vec::new();
            b.iter(|| {
                let mut reader = RecordReader::new(black_box(framed.as_slice()));
                while let Ok(true) = reader.read_record(&mut record) {}
                assert_eq!(reader.position().record, records as u64);
            });
        });
        for (name, policy) in [("decode", CrcPolicy::Verify), ("decode_skip", CrcPolicy::Skip)] {
            group.bench_function(BenchmarkId::new(name, len), |b| {
                let mut decoded = Records::new();
                b.iter(|| {
                    decoded.clear();
                    let mut decoder = RecordDecoder::new().with_crc_policy(policy);
                    let mut input = black_box(framed.as_slice());
                    while let Ok(1..) = decoder.decode(&mut input, usize::MAX, &mut decoded) {}
                    assert_eq!(decoded.len(), records);
                });
            });
        }
        group.bench_function(BenchmarkId::new("scan", len), |b| {
            let (mut found, mut damage) = (Records::new(), Vec::new());
            b.iter(|| {
                found.clear();
                let mut scanner = RecordScanner::new();
                let mut input = black_box(framed.as_slice());
                while let Ok(1..) = scanner.scan(&mut input, usize::MAX, &mut found, &mut damage) {}
                assert_eq!((found.len(), damage.len()), (records, 0));
            });
        });
    }
    group.finish();
}

fn checksum(c: &mut Criterion) {
    let mut group = c.benchmark_group("masked_crc32c");
    group.measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(300));
    for len in [8, 10, 20, 50, 100, 200, 500, 4096, BLOCK_LEN] {
        // An odd address, as most payloads in a buffer have.
        let bytes = vec![7; len + 1];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::from_parameter(len), |b| b.iter(|| masked_crc32c(black_box(&bytes[1..]))));
    }
    group.finish();
}

criterion_group!(benches, framing, checksum);
criterion_main!(benches);
